/*
 * keys_scene.h - a strict tag and the log's time, for tests of idempotency keys. Thread: the
 * test's.
 */
#ifndef LEAFD_ID_FSM_TESTS_KEYS_SCENE_H
#define LEAFD_ID_FSM_TESTS_KEYS_SCENE_H

#include "src/id/tests/id_apply.h"

#define NOW_MS 1700000000000ULL /* the log's time at first */

/* As id_apply_begin(), with the strict tag "a". */
int keys_setup(void **state);

/* The result gives new ids from first on, or those of before; or is refused. */
void gives(struct strict_result result, uint64_t first);
void replays(struct strict_result result, uint64_t first);
void refuses(struct strict_result result, int status, uint64_t detail);

#endif

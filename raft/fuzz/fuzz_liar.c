/*
 * fuzz_liar.c - a member that proved its id and lies: the bytes are its frames, and what happens to
 * its victims between them (raft/core/tests/raft_liar.h says what must hold).
 *
 * Everything is drawn byte by byte, so that a small change of the input is a small change of the
 * story.
 *
 * Thread: one.
 */
#include "raft/core/tests/raft_liar.h"
#include "src/base/log.h"

#define STEPS 400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct liar_source source = {.data = data, .len = len};
    struct liar_result result;

    log_setup((enum log_level)(LOG_LEVEL_ERROR + 1), 0); /* each lie is an alarm */
    liar_play(&source, STEPS, &result);
    return 0;
}

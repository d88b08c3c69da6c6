/* A cluster in memory, for programs' own tests (leafd_fake_new()): it answers the requests of one
 * client in place of nodes.
 *
 * The happy path: fake_new(), fake_answer() for each request, fake_free(). Failure modes: no
 * memory; the errors that a test has set. Any thread. */
#ifndef LEAFD_CLIENTS_C_FAKE_H
#define LEAFD_CLIENTS_C_FAKE_H

#include "http.h"

struct fake;

/* NULL: no memory. */
struct fake *fake_new(void);
void fake_free(struct fake *fake);

/* Answer it; body has room for ANSWER_BYTES and a 0. */
enum ask fake_answer(struct fake *fake, const struct request *request, struct answer *answer,
                     char *body);
#endif

/* How the library fills a caller's leafd_error, and the times that it counts in. Any thread. */
#ifndef LEAFD_CLIENTS_C_FAULT_H
#define LEAFD_CLIENTS_C_FAULT_H

#include "leafd.h"

#include <pthread.h>

/* Fill *error, if there is one, and return -1. A message that is too long is cut. */
int fault(struct leafd_error *error, const char *code, int status, bool retryable,
          const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Of a call whose time was over before an answer that is final. */
bool fault_is_late(const struct leafd_error *error);

/* The failure is of a request with this key, which may be NULL. -1. */
int fault_keyed(struct leafd_error *error, const char *key);

/* Of CLOCK_MONOTONIC, in nanoseconds, and the system's time in milliseconds since 1970. */
uint64_t now_ns(void);
int64_t wall_ms(void);

enum { NS_PER_MS = 1000000 };

/* A condition that waits by CLOCK_MONOTONIC. */
void condition_init(pthread_cond_t *condition);

/* Wait for a signal until then; false: that time has come. */
bool condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns);

/* The same for what another thread brings. Where this comes late, the program stood still: that one
 * has as long again, half a second at most, to read what came meanwhile. */
void condition_wait_news(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns);
#endif

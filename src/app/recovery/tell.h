/*
 * tell.h - what `leafd restore` and `leafd recover` say: what was found, from where each tag goes
 * on, what may be lost and what the raise cannot cover, and what to do next.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_APP_RECOVERY_TELL_H
#define LEAFD_APP_RECOVERY_TELL_H

#include "src/app/recovery/fresh.h"
#include "src/app/recovery/renew.h"

/* Of a backup that was only checked. */
void tell_file(const struct saved *saved, uint64_t now_ms, struct buf *out);

/* Where the state is from, and from where each tag goes on. */
void tell_source(const struct options *options, const struct saved *saved,
                 const struct renewed *renewed, uint64_t now_ms, struct buf *out);

/* What it cannot cover. */
void tell_limits(const struct options *options, const struct saved *saved,
                 const struct renewed *renewed, uint64_t now_ms, struct buf *out);

/* It is written (or would be), and what follows. */
void tell_result(const struct options *options, const struct fresh *fresh,
                 const struct renewed *renewed, struct buf *out);

#endif

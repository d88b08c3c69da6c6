/*
 * live.h - those who watch: GET /api/live, as Server-Sent Events.
 *
 * The happy path: watch.c makes one picture a second, live_show() hands it to each loop that has
 * viewers, and the loop appends the same bytes to each of its streams. Nothing is made per viewer.
 *
 * Failure modes: a viewer that has not taken the last picture yet does not get this one: nothing
 * piles up, neither here nor, beyond LIMIT_LIVE_SOCKET_BYTES, in the kernel. One that takes nothing
 * for 10 s is cut off then, as any reader. Tokens that
 * are read again: whoever may not watch any more is ended. More than LIMIT_LIVE_VIEWERS: 503
 * overloaded. A drain ends all of them.
 *
 * Threads: viewers are their loop's; live_show() is called on any loop.
 */
#ifndef LEAFD_HTTP_API_LIVE_H
#define LEAFD_HTTP_API_LIVE_H

#include <stdbool.h>

#include "src/base/buf.h"

struct api;

/* Does anybody? */
bool live_is_watched(const struct api *api);

/* Give all of them these bytes, whole events. Takes them over. */
void live_show(struct api *api, struct buf *bytes);

#endif

/*
 * bell.c - see bell.h: an eventfd, which is written only by the first who rings.
 *
 * `rung` falls before the loop looks: who finds it up rang before that, and what he left is seen.
 */
#include "src/loop/bell.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "src/base/assert.h"

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    struct bell *bell = CONTAINER(poll, struct bell, poll);
    uint64_t count;

    (void)events;
    ASSERT(status == 0);
    ASSERT(read(bell->fd, &count, sizeof count) == sizeof count);
    (void)atomic_exchange_explicit(&bell->rung, false, memory_order_acq_rel);
    bell->rang(bell);
}

int bell_init(struct bell *bell, uv_loop_t *loop, void (*rang)(struct bell *bell))
{
    *bell = (struct bell){.rang = rang};
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell->fd < 0) {
        return ERR_NOMEM;
    }
    if (uv_poll_init(loop, &bell->poll, bell->fd) != 0) {
        (void)close(bell->fd);
        return ERR_NOMEM;
    }
    ASSERT(uv_poll_start(&bell->poll, UV_READABLE, poll_cb) == 0);
    return 0;
}

void bell_ring(struct bell *bell)
{
    const uint64_t one = 1;

    if (!atomic_exchange_explicit(&bell->rung, true, memory_order_acq_rel)) {
        ASSERT(write(bell->fd, &one, sizeof one) == sizeof one);
    }
}

static void closed_cb(uv_handle_t *handle)
{
    struct bell *bell = CONTAINER(handle, struct bell, poll);

    bell->close_cb(bell);
}

void bell_close(struct bell *bell, void (*cb)(struct bell *bell))
{
    bell->close_cb = cb;
    uv_close((uv_handle_t *)&bell->poll, closed_cb);
}

void bell_free(struct bell *bell)
{
    (void)close(bell->fd);
}

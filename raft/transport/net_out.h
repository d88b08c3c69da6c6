/*
 * net_out.h - what one connection has to write: the queue, one write at a time, and its progress.
 *
 * The happy path: frames gather in `queue`; a flush moves a batch of them to `sending` and offers
 * all their pieces to the socket in one system call. It nearly always takes them; for what it does
 * not take there is uv_write(), and when that is through, what gathered meanwhile goes next. So
 * frames of one loop turn share a system call, and none waits for a timer. (Not uv_write() alone:
 * it costs a call of its callback in another round of the loop, and an epoll_ctl() each time.)
 *
 * With TLS the frames of a flush are sealed together, up to SEAL_BYTES at once, and what comes out
 * goes to the socket in one piece; what TLS itself has to say (handshakes, alerts) goes before.
 *
 * Failure modes: a write that fails stops the output for good and calls `failed`, which closes the
 * connection. The queue's bound is the sender's to keep (net_uv.c).
 *
 * Thread: the raft loop.
 */
#ifndef LEAFD_RAFT_TRANSPORT_NET_OUT_H
#define LEAFD_RAFT_TRANSPORT_NET_OUT_H

#include <sys/queue.h>
#include <uv.h>

#include "raft/transport/tls_channel.h"
#include "raft/wire/frame.h"

struct net_piece;

STAILQ_HEAD(net_piece_list, net_piece);

struct net_out {
    uv_stream_t *stream;
    struct tls_channel *tls; /* borrowed; NULL: none, or none yet */
    struct buf sealed;       /* with TLS: what the socket is given */
    void (*failed)(struct net_out *out, const char *reason);
    struct net_piece_list queue;
    struct net_piece_list sending; /* in the write request */
    size_t queue_bytes;            /* of both lists */
    uv_write_t write;
    bool writing;
    bool stopped;         /* it writes no more */
    uint64_t write_ms;    /* of the last write that began */
    size_t unsent_bytes;  /* the socket's queue at the last look */
    uint64_t progress_ms; /* when that last changed */
};

void net_out_init(struct net_out *out, uv_stream_t *stream,
                  void (*failed)(struct net_out *out, const char *reason));

/* Queue a frame, or bytes that are frames already; the memory is taken over. They leave with the
 * next flush. */
void net_out_frame(struct net_out *out, enum frame_type type, struct buf *payload);
void net_out_bytes(struct net_out *out, struct buf *bytes);

/* Write what is queued, unless a write is under way (then that goes on with it). */
void net_out_flush(struct net_out *out);

/* For how long the socket has taken nothing of what it was given; 0 while it has nothing. */
uint64_t net_out_stalled_ms(struct net_out *out);

/* Begin no write any more. One under way ends by itself when the stream is closed. */
void net_out_stop(struct net_out *out);

/* Free what was not written. No write is under way. */
void net_out_free(struct net_out *out);

#endif

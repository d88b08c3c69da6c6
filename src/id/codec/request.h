/*
 * request.h - one request to the cluster, and how the parts below the node submit it.
 *
 * The happy path: the caller fills kind, deadline, payload and done, and submits the request by
 * id_backend.submit from an HTTP loop or by an id_proposer on the raft loop. done is called with
 * the status and the reply.
 *
 * Failure modes: the status, as below. Thread: as each struct says.
 */
#ifndef LEAFD_ID_CODEC_REQUEST_H
#define LEAFD_ID_CODEC_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "src/base/buf.h"
#include "src/base/container.h"
#include "src/base/timers.h"

enum id_request_kind {
    ID_REQUEST_COMMAND,  /* payload: a command (command.h); reply: its result */
    ID_REQUEST_QUERY,    /* payload: a query; reply: its result; linearizable unless local */
    ID_REQUEST_OPEN,     /* payload: a tag's name; afterwards the id table holds it. Status 0 or
                            ERR_UNKNOWN_TAG; asks the leader before it answers unknown */
    ID_REQUEST_STATUS,   /* out: struct id_cluster_status, filled from this node's view */
    ID_REQUEST_SEGMENTS, /* payload: a QUERY_TAG_LIST; out: struct id_segments_page */
    ID_REQUEST_STRICT,   /* payload: strict_item_encode(); reply: RESULT_STRICT of one, also when
                            status is the error of that result (the details of an ERR_KEY_CONFLICT,
                            ERR_KEYS_FULL, ERR_CHANGING, ERR_EXHAUSTED); empty when the request was
                            never carried out */
    ID_REQUEST_MEMBER,   /* payload: a member_ask; reply: a member_answer, which is PENDING if the
                            deadline comes before the end */
    ID_REQUEST_BACKUP,   /* out: struct id_backup; reply: its next bytes */
    ID_REQUEST_BUFFERS,  /* payload: a QUERY_TAG_LIST; out: struct id_buffers: the ids held by each
                            member that answers by the deadline. Status 0, ERR_OVERLOADED
                            (LIMIT_BUFFERS_WAITS) or ERR_SHUTTING_DOWN */
    ID_REQUEST_BARRIER,  /* index: of an entry of the log. Status 0 once all members have applied
                            it; else ERR_TIMEOUT, ERR_OVERLOADED (LIMIT_BARRIER_WAITS) or
                            ERR_SHUTTING_DOWN; out: struct missing_members: those that have not, as
                            far as this node knows. The reply is unchanged */
    ID_REQUEST_MONOTONIC /* payload: a COMMAND_STRICT, never stamped: its items take ids of the
                            leader's windows (docs/monotonic.md); reply: RESULT_STRICT */
};

/* Where an item of a batcher is (src/id/alloc/batch.h). */
enum batch_where { BATCH_IDLE, BATCH_READY, BATCH_DELAYED, BATCH_SENT };

#define BATCH_AT_MS_MAX ((UINT64_C(1) << 62) - 1)

struct batch_place;

/* An item of a batcher, which alone uses it. All zero: idle. */
struct batch_item {
    union {
        TAILQ_ENTRY(batch_item) link; /* READY, DELAYED */
        struct batch_place *place;    /* SENT: in which batch */
    };
    uint64_t at_ms : 62; /* READY: since when; DELAYED: until when; IDLE: the owner's */
    uint64_t where : 2;  /* enum batch_where */
};

/*
 * One request. The caller owns the struct until done is called, exactly once, on the raft loop's
 * thread, never from inside submit or propose. Exception: on a submit after the node has stopped,
 * done is called at once, with ERR_SHUTTING_DOWN, on the caller's thread. The request is repeated
 * internally (through elections) until deadline_ms, unless it is `once`.
 * Status: 0, or as the kind defines, or ERR_NO_LEADER (no leader until the deadline), ERR_TIMEOUT
 * (sent, no answer until the deadline), ERR_OVERLOADED, ERR_DISK_FULL, ERR_TOO_LARGE,
 * ERR_SHUTTING_DOWN.
 */
struct id_request {
    enum id_request_kind kind;
    bool local;           /* ID_REQUEST_QUERY: this node's state, however old */
    bool once;            /* ID_REQUEST_COMMAND: the leader's own, see cluster_request.once */
    bool fresh;           /* ID_REQUEST_OPEN: by the leader's row, even for a known tag */
    uint64_t deadline_ms; /* on the backend's clock (clock_now_ms) */
    struct buf payload;   /* owned by the request, but not while the cluster serves it */
    struct buf reply;     /* filled by the backend; owned by the request */
    void *out;            /* caller's struct, for STATUS, SEGMENTS, BUFFERS, BACKUP, EVERYWHERE */
    uint64_t index;       /* filled by the backend with status 0: of a COMMAND's entry; of a QUERY
                             that is not local, or a MONOTONIC, an index that the answer is not
                             older than */
    int status;
    void (*done)(struct id_request *request);
    void *data; /* the caller's */
    /* the backend's own while it holds the request */
    struct mailbox_item post; /* to the raft loop */
    TAILQ_ENTRY(id_request) link;
    struct timer deadline;
    uint64_t id;  /* of BUFFERS: its number on the wire */
    void *holder; /* the part of the backend that watches its deadline */
    /* of STRICT */
    struct batch_item item;
    uint64_t began_us; /* when it came */
    uint8_t mode; /* TAG_MODE_MONOTONIC, or any other: strict, as known here. If the leader reports
                   * another mode, the batcher uses that */
    bool keyed;   /* the batcher's own: it has a key */
};

/* How a part of the node on the raft loop reaches the cluster: by an id_request of kind COMMAND.
 * The id service implements it by the function that serves id_backend.submit; the simulation and
 * tests provide their own. Owner's thread. */
struct id_proposer {
    void (*propose)(struct id_proposer *proposer, struct id_request *request);
};

#endif

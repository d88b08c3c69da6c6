/*
 * err.h - the error codes of all layers.
 *
 * A function that can fail returns int: 0 or a negative ERR_*. Foreign codes (LMDB, libuv, C-Raft,
 * OpenSSL) are converted in the one file that includes their header. Thread: any.
 */
#ifndef LEAFD_BASE_ERR_H
#define LEAFD_BASE_ERR_H

/* X(name, value, code, text): code is the word that HTTP errors and log lines carry. */
#define ERR_LIST(X)                                                                                \
    X(NOMEM, -1, "no_memory", "out of memory")                                                     \
    X(INVALID, -2, "bad_request", "invalid argument")                                              \
    X(UNKNOWN_TAG, -3, "unknown_tag", "no such tag")                                               \
    X(WOULD_REPEAT, -4, "would_repeat", "lowering max_id would hand out ids again")                \
    X(EXHAUSTED, -5, "exhausted", "the tag has no ids left below its max, or 2^63")                \
    X(NOT_CONTIGUOUS, -6, "not_contiguous", "a segment cannot hold so many ids in one range")      \
    X(EMPTY, -7, "empty", "nothing there yet")                                                     \
    X(NO_LEADER, -8, "no_leader", "no leader is known")                                            \
    X(NOT_LEADER, -9, "not_leader", "this node does not lead")                                     \
    X(TIMEOUT, -10, "timeout", "the deadline passed")                                              \
    X(OVERLOADED, -11, "overloaded", "a queue is full")                                            \
    X(SHUTTING_DOWN, -12, "shutting_down", "the node is stopping")                                 \
    X(DISK_FULL, -13, "disk_full", "the disk, quota or map is nearly full, or stands still")       \
    X(IO, -14, "io_error", "input/output error")                                                   \
    X(CORRUPT, -15, "corrupt", "stored data is damaged")                                           \
    X(LOCKED, -16, "locked", "another process holds the data directory")                           \
    X(TOO_LARGE, -17, "too_large", "larger than the limit")                                        \
    X(TRUNCATED, -18, "truncated", "data ends too early")                                          \
    X(BAD_VERSION, -19, "bad_version", "version not supported")                                    \
    X(CONFLICT, -20, "conflict", "conflicts with the present state")                               \
    X(BAD_MESSAGE, -21, "bad_message", "malformed message")                                        \
    X(NOT_FOUND, -22, "not_found", "not found")                                                    \
    X(REFUSED, -23, "refused", "refused by the peer")                                              \
    X(UNKNOWN_OUTCOME, -24, "unknown_outcome", "the outcome is unknown")                           \
    X(DIVERGED, -25, "diverged", "this node's state differs from the cluster's")                   \
    X(DISABLED, -26, "disabled", "switched off by the configuration")                              \
    X(EXISTS, -27, "exists", "already there")                                                      \
    X(WRONG_NODE, -28, "wrong_node", "the data directory belongs to another node or cluster")      \
    X(CLOCK_BACKWARDS, -29, "clock_backwards", "the clock is behind times that were used already") \
    X(CLOCK_SKEW, -30, "clock_skew", "the clock is too far from the cluster's")                    \
    X(WINDOW_EXPIRED, -31, "window_expired", "the worker's time window is over")                   \
    X(EPOCH_EXHAUSTED, -32, "epoch_exhausted", "the layout's time is over")                        \
    X(NO_WORKER_ID, -33, "no_worker_id", "no worker id is free")                                   \
    X(FENCED, -34, "fenced", "the worker id has another holder or epoch now")                      \
    X(WRONG_MODE, -35, "wrong_mode", "the tag is in another mode")                                 \
    X(KEY_CONFLICT, -36, "idempotency_conflict", "the key was used with another count")            \
    X(KEYS_FULL, -37, "idempotency_full", "the table of idempotency keys is full")                 \
    X(CHANGING, -38, "mode_changing", "the tag's mode is changing: a node may hold a segment yet") \
    X(STALE, -39, "stale", "of an earlier incarnation of its sender, or too old")                  \
    X(REMOVED, -40, "removed", "the node was removed from the cluster")                            \
    X(IMPLAUSIBLE, -41, "implausible", "a term or an index that no cluster can have reached")      \
    X(CONTRADICTED, -42, "contradicted", "a leader contradicts what is known to be committed")     \
    X(UNSAFE_DIRECTORY, -43, "unsafe_directory", "not a directory that data may be kept in")       \
    X(OTHER_BIRTH, -44, "other_birth", "the other node belongs to another cluster")                \
    X(OTHER_LIST, -45, "other_list", "the nodes were given different lists of first members")      \
    X(NEWER, -46, "newer", "of a newer level than this leafd speaks")                              \
    X(NEEDS_FORCE, -47, "needs_force", "only force raises max_id so far")                          \
    X(STATE_FULL, -48, "state_full", "the state takes as much memory as it may")                   \
    X(SHARE, -49, "share", "the client holds as much as one client may")                           \
    X(NOT_OWNER, -50, "not_owner", "it belongs to another client")                                 \
    X(PAUSED, -51, "paused", "the tag is paused")

enum err {
    ERR_OK = 0,
#define X(name, value, code, text) ERR_##name = value,
    ERR_LIST(X)
#undef X
};

/* The code word of an ERR_* ("unknown_tag"); "ok" for 0, "unknown_error" for anything else. */
const char *err_code(int err);

/* A short English text of an ERR_*. Static memory. */
const char *err_text(int err);

#define MUST_CHECK __attribute__((warn_unused_result))

#endif

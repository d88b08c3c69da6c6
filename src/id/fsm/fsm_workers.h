/*
 * fsm_workers.h - the table of worker ids, and what acquire, renew and release do to it (the rules
 * are in worker.h).
 *
 * The happy path of an acquire: check what was asked, find the row that the name had, choose the
 * worker id, and grant the window above all windows that this id ever had. Of a renewal: the epoch
 * and the previous bound must be the row's, then the bound moves up. Of a release: the row becomes
 * free, and what its holder says it did not use is given back. Neither touches a row of the other
 * kind: a client's command, whatever it says, does nothing to a node's row.
 *
 * A node's name has one row that is held at most: one that asks for another worker id than the one
 * it holds is refused, and an expired one that it leaves becomes released, so that its old
 * epoch is fenced. Released rows keep their names; of several the one changed last counts. A
 * client's rows are its own (worker.h).
 *
 * Of an acquire for a client: what it holds is counted first, and where that is its share, what it
 * let pass is released before anything is refused (worker.h). The count is of the rows themselves,
 * so that it is the same on all nodes and after a snapshot.
 *
 * Failure modes go into the result, and then nothing was changed.
 *
 * The rows are pointed to by a list in the order of their ids, which has beside each what a search
 * reads: an acquire beside 65,535 takes about 1 ms (docs/snowflake.md).
 *
 * Thread: one owner. Deterministic: only the state and the command decide.
 */
#ifndef LEAFD_ID_FSM_FSM_WORKERS_H
#define LEAFD_ID_FSM_FSM_WORKERS_H

#include "src/id/codec/command.h"
#include "src/id/fsm/fsm_settings.h"

/* A row, and what of it is read when all are gone through. */
struct fsm_worker {
    struct worker_row *row;
    uint64_t until_ms : 63;
    uint64_t held : 1;
    uint64_t client;
    uint64_t name; /* its hash */
};

struct fsm_workers {
    struct journal *journal;
    struct fsm_listener *const *listener; /* the machine's */
    const struct fsm_settings *settings;
    uint64_t seed; /* of hashes of names: clients choose them, and nobody knows which collide */
    struct fsm_worker *list; /* by id: of each that was ever held */
    size_t count;
    size_t room; /* of the list */
};

void fsm_workers_init(struct fsm_workers *workers, const struct fsm_settings *settings,
                      struct journal *journal, struct fsm_listener *const *listener);
void fsm_workers_clear(struct fsm_workers *workers);

/* The row of a worker id that was ever held, or NULL. Borrowed until the next apply. */
const struct worker_row *fsm_workers_find(const struct fsm_workers *workers, uint16_t id);

/* Row number `at` in the order of ids, or NULL: no more. Borrowed until the next apply. */
const struct worker_row *fsm_workers_at(const struct fsm_workers *workers, size_t at);

/* How many are held; and names under which several are whose windows are not over. A millisecond
 * for 65,535. */
void fsm_workers_count(const struct fsm_workers *workers, uint64_t *ret_held, uint64_t *ret_shared);

/* It is an acquire, renew or release. */
void fsm_workers_apply(struct fsm_workers *workers, const struct command *command,
                       struct buf *result);
/* Answer a QUERY_WORKERS. */
void fsm_workers_list(const struct fsm_workers *workers, const struct query *query,
                      struct buf *result);

/* A row as state_load_row() gets it. */
int fsm_workers_load(struct fsm_workers *workers, const struct row_loaded *loaded) MUST_CHECK;
/* Tell the listener of every row. */
void fsm_workers_notify(const struct fsm_workers *workers);

#endif

/*
 * machine.h - a state machine that is replicated: what raft/ is handed, and knows no more of.
 *
 * The replicated state has two halves. The cluster's half (its birth, level, members, time, and the
 * answers of all commands) is state.h; the other is a machine. To each belong types of commands and
 * tables of rows (journal.h). state.h has both: it asks the machine about every command and every
 * row that is not the cluster's.
 *
 * Rows and digest need no functions here: a machine writes each row that it changes into the
 * state's journal, so that both halves have one digest, and one list of changes for the disk.
 *
 * The happy path: read() takes a command apart; state.h sees whether it may be carried out, and was
 * not before; apply() does it, and appends its result.
 *
 * Invariants: apply is deterministic: the same commands from the same rows give the same rows and
 * results. Nothing decides but the rows, the command, the entry and the log's time.
 *
 * Failure modes: those of read() and load_row(). Thread: one owner (the raft loop).
 */
#ifndef LEAFD_STATE_MACHINE_H
#define LEAFD_STATE_MACHINE_H

#include "src/base/container.h"
#include "src/state/journal.h"

struct state;

struct machine {
    const struct machine_ops *ops;
    struct state *state; /* that it is a half of */
};

/* What a command says of itself. */
struct machine_command {
    uint16_t since;  /* the level that the cluster must have for it */
    bool is_leaders; /* the leader of a term appends it for itself, without a stamp */
};

/* The entry that a command is of. */
struct machine_entry {
    uint64_t index;
    uint64_t term;
    uint64_t node_id; /* whose command it is; 0: the leader's own */
};

struct machine_ops {
    /* --- the whole --- */

    /* An empty one, for the state, whose journal is there already. */
    struct machine *(*make)(struct state *state);
    void (*free)(struct machine *machine);
    /* Become another one, of the same kind, whose load has ended; from has the old rows then. */
    void (*take)(struct machine *machine, struct machine *from);
    /* Memory that its rows take. */
    uint64_t (*bytes)(const struct machine *machine);

    /* --- commands --- */

    /* The level that brought a type of commands; 0: it has no such type. */
    uint16_t (*since)(int type);
    /* Read a command whole; changes no row. 0 with what it says of itself, or ERR_BAD_MESSAGE. The
     * command stays where it is until it was applied. */
    int (*read)(struct machine *machine, const void *data, size_t len,
                struct machine_command *ret_command);
    /* Carry out the command that was read last; appends its result, one byte at least. */
    void (*apply)(struct machine *machine, const struct machine_entry *entry, struct buf *result);
    /* The command that was read last is of the entry at index, and is applied next: do a part of
     * what can be done before. True: there is more, and foresee_more() does a further part, also
     * once other commands were read. What apply() makes is the same with and without. */
    bool (*foresee)(struct machine *machine, uint64_t index);
    bool (*foresee_more)(struct machine *machine, uint64_t index);

    /* --- what the cluster's half reports --- */

    /* This is the log's time from now on. */
    void (*clock)(struct machine *machine, uint64_t log_ms);
    /* The node was removed from the cluster for good: its commands are refused from now on. */
    void (*removed)(struct machine *machine, uint64_t node_id);

    /* --- loading, as state_load_begin() and the others do --- */

    /* Forget all rows. */
    void (*load_begin)(struct machine *machine);
    /* 0, or ERR_CORRUPT, ERR_BAD_VERSION, ERR_TRUNCATED, ERR_EXISTS, or ERR_NEWER: it knows no such
     * table or setting. */
    int (*load_row)(struct machine *machine, const struct row_loaded *row);
    /* All rows are there, as of the entry at index and the log's time. 0, or ERR_CORRUPT: they
     * contradict each other. */
    int (*load_end)(struct machine *machine, uint64_t index, uint64_t log_ms);
} BY_NAME;

#endif

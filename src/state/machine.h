/*
 * machine.h - a replicated state machine: all that raft/ is given and knows of it.
 *
 * The replicated state has two halves. The cluster's half (its birth, level, members, time, and the
 * answers to all commands) is state.h; the other is a machine. Each half has its own types of
 * commands and tables of rows (journal.h). state.h contains both: it passes every command and row
 * that is not the cluster's to the machine.
 *
 * Rows and digest need no functions here: a machine writes each row that it changes into the
 * state's journal, so that both halves have one digest, and one list of changes for the disk.
 *
 * The happy path: read() decodes a command; state.h checks that it may be carried out and was not
 * before; apply() carries it out and appends its result. Its invariants are in state.h: only the
 * rows, the command, the entry and the log's time decide.
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
    struct state *state; /* that contains it */
};

/* Properties of a command. */
struct machine_command {
    uint16_t since;  /* the level that the cluster needs for it */
    bool is_leaders; /* appended by the leader of a term for itself, without a stamp */
};

/* The entry of a command. */
struct machine_entry {
    uint64_t index;
    uint64_t term;
    uint64_t node_id; /* the command's sender; 0: the leader's own */
};

struct machine_ops {
    /* --- the whole --- */

    /* Make an empty one, for the state, whose journal exists already. */
    struct machine *(*make)(struct state *state);
    void (*free)(struct machine *machine);
    /* Take the rows of another machine of the same kind, whose load has ended; from then has the
     * old rows. */
    void (*take)(struct machine *machine, struct machine *from);
    /* Memory of its rows. */
    uint64_t (*bytes)(const struct machine *machine);

    /* --- commands --- */

    /* The level that introduced a type of commands; 0: it has no such type. */
    uint16_t (*since)(int type);
    /* Read a whole command; changes no row. 0 with its properties, or ERR_BAD_MESSAGE. The command
     * stays in place until it is applied. */
    int (*read)(struct machine *machine, const void *data, size_t len,
                struct machine_command *ret_command);
    /* Carry out the command that was read last; appends its result, one byte at least. */
    void (*apply)(struct machine *machine, const struct machine_entry *entry, struct buf *result);
    /* The command read last is of the entry at index, and is applied next: do a part of the work
     * that can be done before. True: there is more, and foresee_more() does a further part, even
     * once other commands were read. The effect of apply() is the same with and without. */
    bool (*foresee)(struct machine *machine, uint64_t index);
    bool (*foresee_more)(struct machine *machine, uint64_t index);

    /* --- reports of the cluster's half --- */

    /* This is the log's time from now on. */
    void (*clock)(struct machine *machine, uint64_t log_ms);
    /* The node was removed from the cluster for good: its commands are refused from now on. */
    void (*removed)(struct machine *machine, uint64_t node_id);

    /* --- loading, as state_load_begin() and the others do --- */

    /* Forget all rows. */
    void (*load_begin)(struct machine *machine);
    /* 0, or ERR_CORRUPT, ERR_BAD_VERSION, ERR_TRUNCATED, ERR_EXISTS, or ERR_NEWER: it knows no such
     * table or setting. */
    int (*load_row)(struct machine *machine, const struct state_row *row);
    /* All rows are loaded, as of the entry at index and the log's time. 0, or ERR_CORRUPT: they
     * contradict each other. */
    int (*load_end)(struct machine *machine, uint64_t index, uint64_t log_ms);
} BY_NAME;

#endif

/*
 * driver_peers.c - what the driver learns about its peers (rollback.h), and the check of their
 * starts.
 *
 * The happy path: each message of the core says what its sender's term was; each acknowledgement,
 * how far its log reaches; driver_meet() compares that with what a peer says of its next start, and
 * puts incarnations that it has not met before on disk. A node that a peer told that it is the
 * older copy marks its own directory by driver_mark_older().
 *
 * Thread: the raft loop.
 */
#include "raft/core/driver_internal.h"

#include "src/base/assert.h"
#include "src/base/log.h"

int driver_peers_start(struct driver *driver, const struct store_loaded *loaded)
{
    const struct buf *record = &loaded->locals[LOCAL_PEERS];

    driver->start = (struct peer_start){driver->config.incarnation, loaded->term,
                                        loaded->first_index + loaded->entry_count - 1};
    return rollback_load(&driver->peers, record->data, record->len);
}

void driver_note_term(struct driver *driver, uint64_t from, const struct raft_message *message)
{
    uint64_t term = 0;

    switch (message->type) {
    case RAFT_APPEND_ENTRIES:
        term = message->append_entries.term;
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        term = message->append_entries_result.term;
        break;
    case RAFT_INSTALL_SNAPSHOT:
        term = message->install_snapshot.term;
        break;
    case RAFT_REQUEST_VOTE: /* a pre-vote is about a term that nobody is in yet */
        term = message->request_vote.pre_vote ? 0 : message->request_vote.term;
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        term = message->request_vote_result.pre_vote ? 0 : message->request_vote_result.term;
        break;
    default:
        break;
    }
    rollback_term(&driver->peers, from, term);
}

/* How far a peer's log must reach that has this term, as far as this node knows as the leader. */
static uint64_t acknowledged(struct driver *driver, uint64_t peer, uint64_t term)
{
    raft_index match = 0;

    if (raft_state(&driver->raft) != RAFT_LEADER ||
        raft_match_index(&driver->raft, peer, &match) != 0) {
        return 0;
    }
    if (term == raft_current_term(&driver->raft)) {
        return match; /* only a leader of a newer term could have taken anything of it back */
    }
    return match < driver->commit ? match : driver->commit;
}

void driver_note_acknowledged(struct driver *driver, uint64_t from)
{
    rollback_index(&driver->peers, from, acknowledged(driver, from, 0));
}

static void on_written(void *data)
{
    (void)data; /* one that is lost is met again */
}

/* Write down what is remembered. */
static void save(struct driver *driver, void (*done)(void *data), void *data)
{
    struct buf record = BUF_INIT;

    driver->peers.changed = false;
    rollback_save(&driver->peers, &record);
    driver_write_local(driver, LOCAL_PEERS, record.data, record.len, done, data);
    buf_free(&record);
}

void driver_mark_older(struct driver *driver, void (*done)(void *data), void *data)
{
    driver->peers.older = true;
    save(driver, done, data);
}

static void log_older(const struct driver *driver, uint64_t peer, const struct peer_start *start,
                      uint64_t index)
{
    const struct peer_seen *seen = rollback_find(&driver->peers, peer);

    log_warn(
        "raft", "the data directory of a peer is an older copy",
        "peer=%llu start=%llu term=%llu last=%llu seen_start=%llu seen_term=%llu "
        "seen_last=%llu",
        (unsigned long long)peer,
        (unsigned long long)(start->incarnation >> PEER_INCARNATION_RANDOM_BITS),
        (unsigned long long)start->term, (unsigned long long)start->index,
        (unsigned long long)(seen != NULL ? seen->incarnation >> PEER_INCARNATION_RANDOM_BITS : 0),
        (unsigned long long)(seen != NULL ? seen->term : 0), (unsigned long long)index);
}

int driver_meet(struct driver *driver, uint64_t peer, const struct peer_start *start)
{
    const struct peer_seen *seen = rollback_find(&driver->peers, peer);
    uint64_t index = acknowledged(driver, peer, start->term);
    int rv = 0;

    if (seen != NULL && seen->incarnation == start->incarnation) {
        return 0;
    }
    if (driver->failed) { /* this node ends: nothing of what it says now matters */
        return 0;
    }
    if (!driver_believes_term(driver, peer, "start_term", start->term) ||
        !driver_believes_index(driver, peer, "start_index", start->index)) {
        return ERR_IMPLAUSIBLE;
    }
    rv = start->index < index ? ERR_STALE : rollback_meet(&driver->peers, peer, start);
    if (rv != 0) {
        index = seen != NULL && seen->index > index ? seen->index : index;
        log_older(driver, peer, start, index);
        return rv;
    }
    if (driver->peers.changed) {
        save(driver, on_written, NULL);
    }
    return 0;
}

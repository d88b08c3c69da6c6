/*
 * replica.c - see replica.h. Thread: the raft loop.
 */
#include <string.h>

#include "raft/cluster/replica_internal.h"
#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/prng.h"

#define STRICT_RETRY_MS 20

/* --- what the parts tell --- */

static void on_applied(struct driver_observer *observer, uint64_t index, uint64_t term,
                       const void *result, size_t len)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    requests_applied(&replica->requests, index, term, result, len);
}

static void on_role_changed(struct driver_observer *observer)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    requests_role_changed(&replica->requests);
    if (replica->owner->role_changed != NULL) {
        replica->owner->role_changed(replica->owner);
    }
}

static void on_configuration_changed(struct driver_observer *observer)
{
    (void)observer; /* each turn looks at the configuration: members_turn() */
}

static void on_installed(struct driver_observer *observer, uint64_t index)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    /* Indexes were jumped over: whatever was submitted has an unknown outcome. */
    requests_role_changed(&replica->requests);
    if (replica->owner->installed != NULL) {
        replica->owner->installed(replica->owner, index);
    }
}

static void on_failed(struct driver_observer *observer, int err, const char *text)
{
    struct replica *replica = CONTAINER(observer, struct replica, observer);

    replica->owner->failed(replica->owner, err, text);
}

static void on_tag_changed(struct fsm_listener *listener, const struct tag_row *row)
{
    struct replica *replica = CONTAINER(listener, struct replica, listener);

    allocator_tag_changed(replica->allocator, row);
    replica_own_tag_changed(replica, row);
}

static void on_worker_changed(struct fsm_listener *listener, const struct worker_row *row)
{
    lease_worker_changed(CONTAINER(listener, struct replica, listener)->lease, row);
}

static void on_layout_changed(struct fsm_listener *listener, const struct snowflake_layout *layout)
{
    lease_layout(CONTAINER(listener, struct replica, listener)->lease, layout);
}

static void on_lease_write(struct lease_disk *disk, unsigned k, const void *data, size_t len,
                           void (*done)(void *data), void *done_data)
{
    struct replica *replica = CONTAINER(disk, struct replica, lease_disk);

    /* In its turn. A node that starts again without a leader knows only what its rows say: a record
     * of a grant that is not among them would be of no use to it. */
    driver_rows_write(&replica->driver, true);
    driver_write_local(&replica->driver, k, data, len, done, done_data);
}

static void on_propose(struct id_proposer *proposer, struct id_request *request)
{
    struct replica *replica = CONTAINER(proposer, struct replica, proposer);

    replica_submit(replica, request);
}

static void on_strict_answer(void *data, struct id_request *request, int status)
{
    struct replica *replica = data;

    requests_finish(&replica->requests, request, status);
}

/* --- start --- */

/*
 * The state machine tells the commands of one incarnation of this node from those of another by
 * this number (session.h), and peers tell incarnations (rollback.h); it must never be the same
 * twice. Its low half is random: a data directory that is set back to an older copy brings an older
 * count of starts with it.
 */
static uint64_t number_of_incarnation(const struct replica_config *config, uint64_t count)
{
    struct prng prng;

    prng_seed(&prng, config->driver.seed);
    return count << PEER_INCARNATION_RANDOM_BITS |
           prng_next(&prng) >> (64 - PEER_INCARNATION_RANDOM_BITS);
}

static struct strict *new_strict(struct replica *replica)
{
    const struct replica_config *config = &replica->config;
    struct strict_config strict = {.key_limit = config->strict_keys, .retry_ms = STRICT_RETRY_MS};

    return strict_new(&strict, replica->clock, &replica->proposer, on_strict_answer, replica);
}

/* The generator, the lease with what the disk remembers of it, and the clock_sync. */
static int start_lease(struct replica *replica, const struct store_loaded *loaded)
{
    const struct lease_config *config = &replica->config.lease;
    /* A node without worker ids of its own keeps the time as well: others may register theirs. */
    struct clock_sync_config clock_sync = {config->threshold_ms > 0, config->threshold_ms,
                                           config->renew_ms, config->layout};
    struct snowflake_layout layout;
    int rv = 0;

    clock_sync_init(&replica->clock_sync, &clock_sync, &replica->driver, replica->net,
                    replica->clock, replica->fsm, &replica->proposer);
    snowflake_init(&replica->snowflake, replica->clock);
    replica->lease = lease_new(config, &replica->snowflake, &replica->clock_sync.check,
                               replica->clock, &replica->proposer, &replica->lease_disk);
    for (unsigned k = 0; k < config->workers && rv == 0; k++) {
        if (loaded->locals[k].len > 0) {
            rv = lease_resume(replica->lease, k, loaded->locals[k].data, loaded->locals[k].len);
        }
    }
    if (fsm_layout(replica->fsm, &layout)) {
        lease_layout(replica->lease, &layout);
    }
    for (uint16_t id = 0; id < LIMIT_WORKER_IDS; id++) {
        const struct worker_row *row = fsm_worker(replica->fsm, id);

        if (row != NULL) {
            lease_worker_changed(replica->lease, row);
        }
    }
    return rv;
}

/* Links, changes of the membership, and what is wished of it. */
static void start_members(struct replica *replica)
{
    const struct replica_config *config = &replica->config;

    membership_init(&replica->membership, &replica->driver, replica->net, replica->clock,
                    replica->fsm, &replica->proposer, config->catch_up_ms);
    replica->requests.membership = &replica->membership;
    wishes_init(&replica->wishes, &replica->requests, replica->clock);
    members_init(&replica->members, &replica->driver, replica->net, replica->clock, replica->fsm,
                 &replica->wishes, config->guests, config->guest_count, config->guest_index);
}

static void follow_members(struct replica *replica)
{
    if (members_turn(&replica->members)) {
        clock_check_members(&replica->clock_sync.check,
                            driver_configuration(&replica->driver)->count);
        requests_set_peers(&replica->requests, replica->members.peers, replica->members.peer_count);
    }
}

int replica_start(struct replica *replica, const struct replica_config *config, struct fsm *fsm,
                  struct disk *disk, struct net *net, const struct clock *clock,
                  struct replica_owner *owner, const struct store_loaded *loaded)
{
    uint64_t now = clock_now_ms(clock);
    int rv;

    memset(replica, 0, sizeof *replica);
    replica->config = *config;
    replica->config.driver.incarnation = number_of_incarnation(config, loaded->incarnation);
    replica->fsm = fsm;
    replica->disk = disk;
    replica->net = net;
    replica->clock = clock;
    replica->owner = owner;
    replica->observer = (struct driver_observer){on_applied, on_role_changed,
                                                 on_configuration_changed, on_installed, on_failed};
    replica->listener = (struct fsm_listener){on_tag_changed, on_worker_changed, on_layout_changed};
    replica->lease_disk.write = on_lease_write;
    replica->proposer.propose = on_propose;
    replica->start_last = loaded->first_index + loaded->entry_count - 1;
    replica->joiner_incarnation = prepare_is_joiner(loaded) ? loaded->incarnation : 0;
    replica->info_next_ms = now;
    replica->digest_next_ms = now + config->digest_ms;
    replica->drain.look = true; /* also after a restart, with nothing in memory */
    replica->table = id_table_new();
    replica->allocator =
        allocator_new(&config->allocator, replica->table, clock, &replica->proposer, NULL);
    ASSERT(replica->table != NULL && replica->allocator != NULL);
    replica->strict = new_strict(replica);
    replica_prefetch_start(replica, loaded);
    rv = start_lease(replica, loaded);
    if (rv != 0) {
        return rv;
    }
    fsm_listen(fsm, &replica->listener);
    requests_init(&replica->requests, &replica->driver, net, disk, clock, fsm,
                  &replica->config.driver);
    replica->requests.allocator = replica->allocator;
    everywhere_init(&replica->everywhere, &replica->driver, net, clock, &replica->requests);
    start_members(replica);
    rv = driver_start(&replica->driver, &replica->config.driver, disk, net, clock, fsm,
                      &replica->observer, loaded);
    if (rv != 0) {
        return rv;
    }
    follow_members(replica);
    atomic_store(&replica->health.started, true);
    return 0;
}

/* --- frames --- */

bool replica_receive(struct replica *replica, uint64_t from, enum frame_type type,
                     const uint8_t *payload, size_t len)
{
    switch (type) {
    case FRAME_RAFT:
    case FRAME_SNAPSHOT_CHUNK:
    case FRAME_SNAPSHOT_ACK:
    case FRAME_RESIGN:
        return driver_receive(&replica->driver, from, type, payload, len);
    case FRAME_REQUEST:
    case FRAME_RELAY:
    case FRAME_PROBE:
    case FRAME_REPLY:
    case FRAME_CONFIRM:
    case FRAME_CONFIRM_ACK:
        return requests_receive(&replica->requests, from, type, payload, len);
    case FRAME_APPLIED:
        return everywhere_receive(&replica->everywhere, from, payload, len);
    case FRAME_CLOCK:
        return clock_sync_receive(&replica->clock_sync, from, payload, len);
    default:
        return false;
    }
}

void replica_link_changed(struct replica *replica, uint64_t peer, bool up)
{
    driver_link_changed(&replica->driver, peer, up);
    requests_link_changed(&replica->requests, peer, up);
    everywhere_link_changed(&replica->everywhere, peer);
}

void replica_peer_gone(struct replica *replica, uint64_t peer)
{
    driver_peer_refused(&replica->driver, peer);
}

/* --- turns --- */

/* What the membership wants; a node that was removed has nothing more to do here. */
static void turn_members(struct replica *replica)
{
    bool holding;

    follow_members(replica);
    /* With the log of the others: from now on an empty one is a loss. */
    if (replica->joiner_incarnation != 0 && driver_applied(&replica->driver)->conf_index > 0) {
        driver_mark_joined(&replica->driver, replica->joiner_incarnation);
        replica->joiner_incarnation = 0;
    }
    membership_turn(&replica->membership, &holding);
    replica->requests.transferring = holding || replica->draining;
    wishes_turn(&replica->wishes);
    if (!replica->removed && fsm_member_removed(replica->fsm, replica->config.driver.node_id)) {
        replica->removed = true;
        replica->owner->removed(replica->owner);
    }
    if (!replica->superseded && replica->requests.superseded != 0) {
        replica->superseded = true;
        replica->owner->superseded(replica->owner, replica->requests.superseded);
    }
}

bool replica_turn(struct replica *replica)
{
    bool more;

    driver_tick(&replica->driver);
    /* First what came in is answered, and applied, which answers more. Then all that is to be sent
     * is gathered, as late as can be, and leaves this node, or is appended here, in one step. */
    requests_answer(&replica->requests);
    more = driver_turn(&replica->driver);
    requests_answer(&replica->requests);
    if (!replica->stopping) {
        everywhere_turn(&replica->everywhere);
        turn_members(replica);
        replica_own_turn(replica);
        requests_tidy(&replica->requests);
        clock_sync_turn(&replica->clock_sync);
        lease_turn(replica->lease);
        replica_prefetch_turn(replica);
        allocator_turn(replica->allocator);
        strict_leader_known(replica->strict, requests_leader_known(&replica->requests));
        strict_turn(replica->strict);
    }
    requests_turn(&replica->requests);
    replica_health_update(replica);
    return more;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t replica_next_ms(const struct replica *replica)
{
    uint64_t next = driver_next_ms(&replica->driver);

    next = earlier(next, requests_next_ms(&replica->requests));
    if (replica->stopping) {
        return next;
    }
    next = earlier(next, allocator_next_ms(replica->allocator));
    next = earlier(next, strict_next_ms(replica->strict));
    next = earlier(next, membership_next_ms(&replica->membership));
    next = earlier(next, wishes_next_ms(&replica->wishes));
    next = earlier(next, everywhere_next_ms(&replica->everywhere));
    next = earlier(next, replica_own_next_ms(replica));
    next = earlier(next, prefetch_next_ms(replica->prefetch));
    next = earlier(next, clock_sync_next_ms(&replica->clock_sync));
    return earlier(next, lease_next_ms(replica->lease));
}

bool replica_transfer(struct replica *replica)
{
    bool over = driver_transfer(&replica->driver, 0);

    /* With nobody to hand it to, this node goes on serving as the leader. */
    replica->draining = !over;
    replica->requests.transferring = !over;
    return over;
}

void replica_transfer_end(struct replica *replica)
{
    replica->draining = false;
    replica->requests.transferring = false;
}

void replica_stop(struct replica *replica)
{
    replica->stopping = true;
    lease_stop(replica->lease);
    strict_stop(replica->strict);
    wishes_stop(&replica->wishes);
    everywhere_stop(&replica->everywhere);
    requests_stop(&replica->requests);
}

void replica_close(struct replica *replica)
{
    requests_close(&replica->requests);
    driver_close(&replica->driver);
    strict_free(replica->strict);
    prefetch_free(replica->prefetch);
    allocator_free(replica->allocator);
    lease_free(replica->lease);
    fsm_free(replica->fsm);
}

void replica_release(struct replica *replica)
{
    id_table_free(replica->table);
}

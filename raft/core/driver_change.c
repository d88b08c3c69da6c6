/*
 * driver_change.c - changes of the configuration and of the leadership: what membership.h decides,
 * given to the core.
 *
 * The happy path: driver_change() appends a whole new configuration, which is in force at once and
 * stands when it is applied (driver_apply.c); driver_catch_up() has the core watch a standby until
 * it is as far as the leader.
 *
 * Failure modes: the core's checks are few (craft of single-server changes, no pending change while
 * a catch-up runs), so they are made here; whatever does not fit is refused without a trace.
 *
 * Thread: the raft loop.
 */
#include <string.h>

#include "raft/core/driver_internal.h"
#include "raft/core/guard.h"
#include "raft/wire/wire.h"
#include "src/base/assert.h"
#include "src/id/codec/member.h"

static const struct raft_server *find_server(const struct raft_configuration *configuration,
                                             uint64_t id)
{
    for (unsigned i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].id == id) {
            return &configuration->servers[i];
        }
    }
    return NULL;
}

const struct raft_server *driver_member(const struct driver *driver, uint64_t id)
{
    return find_server(&driver->raft.configuration, id);
}

bool driver_change_pending(const struct driver *driver)
{
    return driver->raft.configuration_uncommitted_index != 0;
}

static int role_of(const struct raft_configuration *configuration, uint64_t id)
{
    const struct raft_server *server = find_server(configuration, id);

    return server != NULL ? server->role : DRIVER_NO_ROLE;
}

uint64_t driver_pending_demotion(const struct driver *driver)
{
    const struct driver_position *applied = &driver->applied;
    uint64_t pending = driver->raft.configuration_uncommitted_index;
    struct raft_configuration before;
    int role;

    if (pending <= driver->commit || applied->conf.len == 0 ||
        role_of(&driver->raft.configuration, driver->config.node_id) == RAFT_VOTER) {
        return 0;
    }
    ASSERT(driver_decode_configuration(applied->conf.data, applied->conf.len, &before) == 0);
    role = role_of(&before, driver->config.node_id);
    raft_configuration_close(&before);
    return role == RAFT_VOTER ? pending : 0;
}

bool driver_is_settled(const struct driver *driver)
{
    return driver->commit == entry_log_last(&driver->log);
}

/* The present configuration with one server added at the end, gone, or in another role: positions
 * never change, since the core keeps what it knows of each by its position. 0, or the core's error
 * for an address that is there already. */
static int changed_configuration(const struct driver *driver, const struct driver_server *server,
                                 struct raft_configuration *ret_configuration)
{
    const struct raft_configuration *now = &driver->raft.configuration;
    int rv = 0;

    raft_configuration_init(ret_configuration);
    for (unsigned i = 0; i < now->n; i++) {
        int role = now->servers[i].id == server->id ? server->role : now->servers[i].role;

        if (role != DRIVER_NO_ROLE) {
            ASSERT(raft_configuration_add(ret_configuration, now->servers[i].id,
                                          now->servers[i].address, role) == 0);
        }
    }
    if (find_server(now, server->id) == NULL) {
        ASSERT(server->role == RAFT_STANDBY);
        rv = raft_configuration_add(ret_configuration, server->id, server->address, server->role);
    }
    return rv;
}

int driver_change(struct driver *driver, const struct driver_server *server)
{
    struct raft_configuration configuration;
    struct raft_event event;
    struct raft_entry entry;
    struct buf conf = BUF_INIT;
    int rv;

    if (!driver_leads(driver)) { /* G10 */
        return ERR_NOT_LEADER;
    }
    if (driver_change_pending(driver) ||
        (server->role != RAFT_VOTER && !driver_is_settled(driver) &&
         role_of(&driver->raft.configuration, server->id) == RAFT_VOTER)) {
        return ERR_CONFLICT;
    }
    rv = changed_configuration(driver, server, &configuration);
    driver_encode_configuration(&configuration, &conf);
    raft_configuration_close(&configuration);
    if (rv != 0 || wire_configuration_check(conf.data, conf.len) != 0) {
        buf_free(&conf);
        return ERR_INVALID;
    }
    memset(&entry, 0, sizeof entry);
    entry.term = raft_current_term(&driver->raft);
    entry.type = RAFT_CHANGE;
    entry.buf.len = conf.len;
    entry.buf.base = raft_malloc(conf.len);
    ASSERT(entry.buf.base != NULL);
    entry.batch = entry.buf.base;
    memcpy(entry.buf.base, conf.data, conf.len);
    buf_free(&conf);
    memset(&event, 0, sizeof event);
    event.type = RAFT_SUBMIT;
    event.submit.entries = &entry;
    event.submit.n = 1;
    rv = driver_step(driver, &event);
    if (rv != 0) {
        raft_free(entry.batch);
        return ERR_NOT_LEADER; /* a transfer is under way */
    }
    return 0;
}

/* The core watches one node at a time; a second one would leave the first one's state at "running"
 * for good. */
static bool is_catching_up(struct driver *driver)
{
    const struct raft_configuration *configuration = &driver->raft.configuration;
    bool running = false;

    for (unsigned i = 0; i < configuration->n && !running; i++) {
        running = driver_caught_up(driver, configuration->servers[i].id) == RAFT_CATCH_UP_RUNNING;
    }
    return running;
}

bool driver_catch_up(struct driver *driver, uint64_t id)
{
    const struct raft_server *server = driver_member(driver, id);
    struct raft_event event;

    if (!driver_leads(driver) || driver_change_pending(driver) || server == NULL ||
        server->role == RAFT_VOTER || is_catching_up(driver)) {
        return false;
    }
    memset(&event, 0, sizeof event);
    event.type = RAFT_CATCH_UP;
    event.catch_up.server_id = id;
    return driver_step(driver, &event) == 0;
}

int driver_caught_up(struct driver *driver, uint64_t id)
{
    int status = RAFT_CATCH_UP_NONE;

    if (driver->failed || raft_state(&driver->raft) != RAFT_LEADER ||
        raft_catch_up(&driver->raft, id, &status) != 0) {
        return RAFT_CATCH_UP_NONE;
    }
    return status;
}

/* --- configurations applied --- */

static size_t members_of(const struct raft_configuration *configuration,
                         struct member members[LIMIT_NODES])
{
    ASSERT(configuration->n <= LIMIT_NODES);
    for (unsigned i = 0; i < configuration->n; i++) {
        members[i].node_id = configuration->servers[i].id;
        members[i].voter = configuration->servers[i].role == RAFT_VOTER;
    }
    return configuration->n;
}

void driver_configured(struct driver *driver, uint64_t index,
                       const struct raft_configuration *after, struct fsm_changes *changes)
{
    struct member old[LIMIT_NODES];
    struct member new[LIMIT_NODES];
    struct raft_configuration before;
    size_t old_count = 0;
    size_t new_count = members_of(after, new);

    if (driver->applied.conf.len > 0) {
        ASSERT(driver_decode_configuration(driver->applied.conf.data, driver->applied.conf.len,
                                           &before) == 0);
        old_count = members_of(&before, old);
        raft_configuration_close(&before);
    }
    fsm_configured(driver->fsm, index, old, old_count, new, new_count, changes);
}

/* --- leadership --- */

static uint64_t best_successor(struct driver *driver)
{
    const struct raft_configuration *configuration = &driver->raft.configuration;
    raft_index best_match = 0;
    uint64_t best = 0;

    for (unsigned i = 0; i < configuration->n; i++) {
        const struct raft_server *server = &configuration->servers[i];
        raft_index match;

        if (server->id == driver->config.node_id || server->role != RAFT_VOTER ||
            !driver->net->ops->connected(driver->net, server->id) ||
            raft_match_index(&driver->raft, server->id, &match) != 0) {
            continue;
        }
        if (best == 0 || match > best_match) {
            best = server->id;
            best_match = match;
        }
    }
    return best;
}

bool driver_transfer(struct driver *driver)
{
    return driver_transfer_to(driver, 0);
}

bool driver_transfer_to(struct driver *driver, uint64_t target)
{
    struct raft_event event;
    raft_index match = 0;

    if (driver->failed || raft_state(&driver->raft) != RAFT_LEADER) {
        return true;
    }
    if (raft_transferee(&driver->raft) != 0) {
        return false;
    }
    target = target != 0 ? target : best_successor(driver);
    if (target == 0 || raft_match_index(&driver->raft, target, &match) != 0) {
        return true;
    }
    /* The core would send TimeoutNow after the first acknowledgement even to one that lags, and it
     * would be ignored there: wait until it has everything. */
    if (match != raft_last_index(&driver->raft)) {
        return false;
    }
    memset(&event, 0, sizeof event);
    event.type = RAFT_TRANSFER;
    event.transfer.server_id = target;
    /* Refused by the core: the target cannot lead. */
    return driver_step(driver, &event) != 0;
}

/*
 * peers.c - see peers.h. Thread: the raft loop.
 */
#include "raft/cluster/peers.h"

#include <stdio.h>
#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/container.h"
#include "src/base/hash.h"
#include "src/base/log.h"

#define BIRTH_LOG_MS 10000 /* how often it is logged that the cluster is not born yet */
#define JOIN_WAIT_MS 10000
#define HEARD_MS 3000 /* a connected peer reports each second what its disk has */

/* --- the first list --- */

void birth_list_read(const struct store_loaded *loaded, uint64_t node_id, const char *cluster_id,
                     const struct service *service, struct birth_list *ret_list)
{
    const struct configuration *members = &ret_list->members;
    uint64_t after = 0;
    BUF_LOCAL(text);

    *ret_list = (struct birth_list){.digest = 0};
    /* If the log begins later, the cluster's birth is in the rows. */
    if (!prepare_first_list(loaded, &ret_list->members) ||
        configuration_find(&ret_list->members, node_id) == NULL) {
        ret_list->members.count = 0;
        return;
    }
    /* In the order of ids: the same list in another order must give the same digest. */
    for (unsigned n = 0; n < members->count; n++) {
        const struct conf_member *next = NULL;

        MEMBER_FOREACH (member, members) {
            if (member->id > after && (next == NULL || member->id < next->id)) {
                next = member;
            }
        }
        ASSERT(next != NULL);
        after = next->id;
        buf_put_u64(&text, next->id);
        buf_put_str16(&text, next->address, strlen(next->address));
    }
    buf_put_str16(&text, cluster_id, strlen(cluster_id));
    buf_put(&text, service->agreed, service->agreed_len);
    ret_list->digest = hash_bytes(text.data, text.len, 0);
    ret_list->digest += ret_list->digest == 0;
}

/* --- which node is of which cluster --- */

struct wire_birth birth_watch_report(const struct birth_watch *watch)
{
    const struct birth *birth = state_birth(watch->on->state);

    if (birth != NULL) {
        return (struct wire_birth){birth->uid, birth->list_digest};
    }
    return !uid_is_none(&watch->learned.uid)
               ? watch->learned
               : (struct wire_birth){.list_digest = watch->list.digest};
}

static void note(struct birth_watch *watch, uint64_t peer, enum birth_wait wait)
{
    struct peer_row *row = context_peer(watch->on, peer);

    if (row != NULL && row->birth_wait != wait) {
        row->birth_wait = wait;
        watch->changes++;
        context_wake(watch->on, WAKE_BIRTHS | WAKE_SEEN); /* since it waits for a member */
    }
}

/* Ensure that the birth, if this node proposes it, names a level that all first members speak. An
 * unknown member counts as speaking the first one. */
static void birth_agree_level(const struct birth_watch *watch)
{
    const struct configuration *members = &watch->list.members;
    uint16_t level = watch->on->state->facts.speaks.max;

    for (unsigned i = 0; i < members->count; i++) {
        const struct peer_row *row = context_peer(watch->on, members->members[i].id);
        uint16_t newest = row != NULL && row->birth_level > 0 ? row->birth_level : LEVEL_FIRST;

        if (members->members[i].id != watch->on->node_id && newest < level) {
            level = newest;
        }
    }
    watch->on->driver->config.birth.level = level;
}

void birth_watch_speaks(struct birth_watch *watch, uint64_t peer, struct level_range levels)
{
    struct peer_row *row = context_peer(watch->on, peer);

    if (!watch->born && row != NULL) {
        row->birth_level = levels.max;
        birth_agree_level(watch);
    }
}

int birth_watch_judge(struct birth_watch *watch, uint64_t peer, const struct wire_birth *said)
{
    struct wire_birth own = birth_watch_report(watch);
    bool own_born = !uid_is_none(&own.uid);
    bool said_born = !uid_is_none(&said->uid);
    enum birth_wait wait = BIRTH_WAIT_UNMET;

    if (own_born && said_born) {
        wait = uid_equal(&own.uid, &said->uid) ? BIRTH_WAIT_BORN : BIRTH_WAIT_OTHER_CLUSTER;
    } else if (own.list_digest != 0 && said->list_digest != 0 &&
               own.list_digest != said->list_digest) {
        /* A joined node has no list of its own, and was admitted by the leader. */
        wait = BIRTH_WAIT_OTHER_LIST;
    } else if (said_born) {
        wait = BIRTH_WAIT_BORN;
        watch->learned = *said;
    } else if (said->list_digest != 0) {
        wait = BIRTH_WAIT_NONE;
    }
    note(watch, peer, wait);
    if (wait == BIRTH_WAIT_OTHER_CLUSTER) {
        return ERR_OTHER_BIRTH;
    }
    return wait == BIRTH_WAIT_OTHER_LIST ? ERR_OTHER_LIST : 0;
}

void birth_watch_refused(struct birth_watch *watch, uint64_t peer, int err)
{
    if (err == ERR_OTHER_BIRTH) {
        note(watch, peer, BIRTH_WAIT_OTHER_CLUSTER);
    } else if (err == ERR_OTHER_LIST) {
        note(watch, peer, BIRTH_WAIT_OTHER_LIST);
    } else if (err == ERR_CONFLICT) {
        note(watch, peer, BIRTH_WAIT_OTHER_NODE);
    }
}

/* --- consequences --- */

/* Nothing from a cluster has come yet. */
static bool is_unborn(const struct birth_watch *watch)
{
    return watch->list.members.count > 0 && driver_last_index(watch->on->driver) <= 1 &&
           state_birth(watch->on->state) == NULL;
}

size_t birth_watch_waits(const struct birth_watch *watch, struct birth_seen ret_waits[LIMIT_NODES])
{
    const struct configuration *members = &watch->list.members;
    size_t count = 0;

    for (unsigned i = 0; i < members->count && is_unborn(watch); i++) {
        uint64_t id = members->members[i].id;
        const struct peer_row *row = context_peer(watch->on, id);
        enum birth_wait wait = row != NULL ? row->birth_wait : BIRTH_WAIT_UNMET;

        if (id != watch->on->node_id && wait != BIRTH_WAIT_NONE) {
            ret_waits[count++] = (struct birth_seen){.id = id, .wait = wait};
        }
    }
    return count;
}

void birth_watch_turn(struct birth_watch *watch)
{
    const struct raft_context *on = watch->on;
    const struct configuration *configuration = driver_configuration(on->driver);
    size_t members = watch->list.members.count;
    unsigned voters = configuration_voters(configuration);
    unsigned others = 0;
    struct birth_seen waits[LIMIT_NODES];
    size_t count = birth_watch_waits(watch, waits);
    char uid[UID_TEXT_BYTES];
    const struct birth *birth = state_birth(on->state);
    bool wrong = false;
    BUF_LOCAL(text);

    if (!watch->born && birth != NULL) {
        watch->born = true;
        watch->changes++;
        timer_cancel(on->timers, &watch->told);
        log_info("raft", "the cluster is born", "uid=%s born_ms=%llu", uid_text(&birth->uid, uid),
                 ull(birth->wall_ms));
    }
    birth_agree_level(watch);
    driver_hold(on->driver, count > 0 || (is_unborn(watch) && !uid_is_none(&watch->learned.uid)));
    MEMBER_FOREACH (member, configuration) {
        others += member->role == ROLE_VOTER &&
                  context_peer(on, member->id)->birth_wait == BIRTH_WAIT_OTHER_CLUSTER;
    }
    /* Without those of another cluster, is a majority of the voters left? */
    if (watch->born && !watch->apart && others > 0 && (voters - others) * 2 <= voters) {
        watch->apart = true;
        NOTIFY(
            on, failed, ERR_OTHER_BIRTH,
            "most members belong to another cluster, which was born apart from this node's: check "
            "cluster.members, peer.advertise and data.dir, here and there");
    }
    if (watch->born || (watch->changes == watch->told_changes && timer_is_armed(&watch->told))) {
        return;
    }
    watch->told_changes = watch->changes;
    context_arm_in(on, &watch->told, BIRTH_LOG_MS);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&text, "%snode %llu %s", i > 0 ? "; " : "", ull(waits[i].id),
                   birth_wait_text(waits[i].wait));
        wrong = wrong || waits[i].wait >= BIRTH_WAIT_OTHER_LIST;
    }
    if (count > 0) {
        log_line(wrong ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "raft",
                 "the cluster is not born yet: all members of the first list have to meet",
                 "met=%zu of=%zu waits_for=\"%.*s\"", members - count, members, (int)text.len,
                 (const char *)text.data);
    }
}

/* --- links --- */

static bool is_peer(const struct peers *peers, uint64_t id)
{
    return net_peer_find(peers->items, peers->count, id) != NULL;
}

static void peers_gather(struct peers *peers)
{
    struct configuration applied;
    const struct configuration *const all[] = {driver_configuration(peers->on->driver), &applied,
                                               &peers->learned.conf};

    peers->count = 0;
    applier_configured(&peers->on->driver->applier, &applied);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        MEMBER_FOREACH (member, all[i]) {
            uint64_t id = member->id;
            const struct net_peer *heard =
                net_peer_find(peers->heard.items, peers->heard.count, id);
            const struct conf_member *learned = configuration_find(&peers->learned.conf, id);
            /* The peer's own report is the newest, then a configuration newer than ours. */
            const char *address = heard != NULL     ? heard->address
                                  : learned != NULL ? learned->address
                                                    : context_address(peers->on, member);

            if (id != peers->on->node_id && !state_member_removed(peers->on->state, id) &&
                !is_peer(peers, id) && peers->count < LIMIT_PEERS) {
                peers->items[peers->count] = (struct net_peer){.id = id};
                memcpy(peers->items[peers->count++].address, address, strlen(address));
            }
        }
    }
}

void peers_turn(struct peers *peers)
{
    struct driver *driver = peers->on->driver;
    struct net *net = peers->on->net;
    struct learned_peers *learned = &peers->learned;
    struct peers_heard *heard = &peers->heard;
    struct rollback *seen = &driver->peers.seen;
    const struct node_info *info;
    struct peers_seen now;

    /* Once this node's log has the configuration, learned peers are no longer needed. */
    if (learned->conf.count > 0 && driver_applied(driver)->conf_index >= learned->index) {
        learned->conf.count = 0;
        learned->changes++;
    }
    now = (struct peers_seen){.term = driver_term(driver),
                              .committed = driver_applied_change(driver),
                              .uncommitted = driver_pending_change(driver),
                              .applied = driver_applied(driver)->conf_index,
                              .learned = peers->learned.changes,
                              .heard = peers->heard.changes,
                              .moves = peers->on->state->members.move_changes};
    if (peers->seen_any && memcmp(&now, &peers->seen, sizeof now) == 0) {
        return;
    }
    /* Forget reported addresses that the log has by now, and the records of removed ids, which
     * never come back. */
    for (size_t i = heard->count; i > 0; i--) {
        const struct net_peer *peer = &heard->items[i - 1];

        info = state_node(peers->on->state, peer->id);
        if ((info != NULL && strcmp(info->peer_address, peer->address) == 0) ||
            state_member_removed(peers->on->state, peer->id)) {
            heard->items[i - 1] = heard->items[--heard->count];
        }
    }
    for (size_t i = seen->count; i > 0; i--) {
        uint64_t id = seen->peers[i - 1].id;

        if (state_member_removed(peers->on->state, id)) {
            rollback_forget(seen, id);
        }
    }
    if (!driver->failed) {
        peer_memory_changed(&driver->peers);
    }
    peers->seen_any = true;
    peers->seen = now;
    peers_gather(peers);
    ASSERT(!is_peer(peers, peers->on->node_id));
    net->ops->set_peers(net, peers->items, peers->count);
}

/* --- handshakes --- */

int peers_admit(const struct peers *peers, uint64_t peer, uint64_t store_id)
{
    const struct node_info *info = state_node(peers->on->state, peer);

    if (state_member_removed(peers->on->state, peer)) {
        return ERR_REMOVED;
    }
    if (info != NULL && info->store_id != store_id) {
        return ERR_WRONG_NODE;
    }
    return 0;
}

bool peers_know(struct peers *peers, uint64_t peer, const struct wire_statement *said)
{
    const struct wire_conf *wire = &said->conf;
    struct configuration conf;

    peers_gather(peers);
    if (is_peer(peers, peer)) {
        return true;
    }
    if (wire->index <= driver_applied(peers->on->driver)->conf_index ||
        wire->index <= peers->learned.index ||
        !trust_index(&peers->on->driver->trust, peer, "configuration_index", wire->index) ||
        state_member_removed(peers->on->state, peer) ||
        configuration_decode(wire->data, wire->len, &conf) != 0 ||
        configuration_find(&conf, peer) == NULL ||
        configuration_find(&conf, peers->on->node_id) == NULL) {
        return false;
    }
    /* A newer configuration with both in it: its members are peers until the log has it. */
    peers->learned.conf = conf;
    peers->learned.index = wire->index;
    peers->learned.changes++;
    context_wake(peers->on, WAKE_MEMBERS);
    return true;
}

int peers_check(struct peers *peers, uint64_t peer, const struct net_presence *presence,
                const struct wire_statement *said)
{
    struct peers_heard *heard = &peers->heard;
    const struct net_peer *moved = net_peer_find(heard->items, heard->count, peer);
    const struct wire_durable *start = &said->start;
    uint64_t known_start = state_node_start(peers->on->state, peer);
    const struct node_info *info = state_node(peers->on->state, peer);
    bool known = info != NULL;
    bool reached = presence->reached == presence->dials;
    /* Is another start of the peer connected, which this one must not displace? If the log does not
     * know the other's data, the one at the address displaces it. */
    bool is_here =
        presence->heard != 0 && (known || presence->heard == presence->dials || !reached);
    size_t at;
    int rv;

    /* The state has a start of each member, also on a node that has met none of them since it
     * joined or was away. If a peer's statement lacks that start, its data are older, or not the
     * registered ones. */
    if (known_start != 0 && known_start != start->incarnation &&
        !incarnations_may_include(said, known_start)) {
        rollback_log_older(
            peer, start,
            &(struct rollback_evidence){"registered", start->incarnation, known_start});
        return ERR_STALE;
    }
    /* The log does not know this data yet, and the address leads to other data. Checked before the
     * statement is remembered. */
    if (!known && presence->reached != 0 && !reached) {
        return ERR_EXISTS;
    }
    rv = driver_check_peer(peers->on->driver, peer, said, is_here);
    context_wake(peers->on, WAKE_UPGRADE);
    /* Remember its reported address, if it has a row: without one, its address is the one it was
     * added with. */
    if (rv == 0 && known && said->address[0] != '\0' &&
        strcmp(info->peer_address, said->address) != 0 &&
        (moved != NULL ? strcmp(moved->address, said->address) != 0 : heard->count < LIMIT_PEERS)) {
        at = moved != NULL ? (size_t)(moved - heard->items) : heard->count++;
        heard->items[at] = (struct net_peer){.id = peer};
        memcpy(heard->items[at].address, said->address, strlen(said->address));
        heard->changes++;
        context_wake(peers->on, WAKE_MEMBERS);
        log_info("raft", "a peer has moved", "peer=%llu address=%s was=%s", ull(peer),
                 said->address, info->peer_address);
    }
    return rv;
}

int peers_judge(struct net_receiver *receiver, const struct net_claim *claim, uint16_t *ret_level)
{
    struct peers *peers = CONTAINER(receiver, struct peers, receiver);
    const struct raft_context *on = peers->on;
    struct wire_statement said = {0};
    struct net_presence presence;
    int birth = 0;
    int rv;

    if (claim->states && !on->stopping) {
        birth = wire_statement_decode(claim->statement, claim->len, &said);
        birth = birth == 0 ? birth_watch_judge(&peers->births, claim->id, &said.birth) : birth;
    }
    rv = birth == ERR_OTHER_BIRTH ? birth : peers_admit(peers, claim->id, claim->store_id);
    if (rv == 0) {
        birth_watch_speaks(&peers->births, claim->id, claim->levels);
        *ret_level = state_level(on->state);
        rv = claim->levels.max < *ret_level ? ERR_NEWER : birth;
    }
    if (rv != 0 || !claim->states) {
        return rv;
    }
    if (on->stopping) {
        return is_peer(peers, claim->id) ? 0 : ERR_NOT_FOUND;
    }
    if (!peers_know(peers, claim->id, &said)) {
        return ERR_NOT_FOUND;
    }
    presence = on->net->ops->presence(on->net, claim->id, claim->store_id, HEARD_MS);
    return peers_check(peers, claim->id, &presence, &said);
}

/* The applied configuration, with its members' current addresses; with the log's if two members
 * claim one (a node was started at another's, say), which no configuration may have. *bytes holds
 * it; the caller frees it. */
static struct wire_conf applied_conf(const struct peers *peers, struct buf *bytes)
{
    struct configuration conf;
    struct configuration moved;

    applier_configured(&peers->on->driver->applier, &conf);
    if (conf.count == 0) {
        return (struct wire_conf){0};
    }
    moved = conf;
    for (unsigned i = 0; i < conf.count; i++) {
        const char *address = context_address(peers->on, &conf.members[i]);

        memcpy(moved.members[i].address, address, strlen(address) + 1);
    }
    configuration_encode(&moved, bytes);
    if (configuration_check(bytes->data, bytes->len) != 0) {
        bytes->len = 0;
        configuration_encode(&conf, bytes);
    }
    return (struct wire_conf){driver_applied(peers->on->driver)->conf_index, bytes->data,
                              bytes->len};
}

void peers_state(struct net_receiver *receiver, struct buf *statement)
{
    const struct peers *peers = CONTAINER(receiver, struct peers, receiver);
    const struct driver *driver = peers->on->driver;
    BUF_LOCAL(conf);
    BUF_LOCAL(earlier);
    struct wire_statement says = {.start = driver->start,
                                  .conf = applied_conf(peers, &conf),
                                  .birth = birth_watch_report(&peers->births)};

    memcpy(says.address, peers->on->config->info.peer_address, sizeof says.address);
    incarnations_earlier(&driver->incarnations, &earlier);
    says.earlier = earlier.data;
    says.earlier_len = earlier.len;
    wire_statement_encode(&says, statement);
}

/* --- nodes that join --- */

static void on_join_done(struct cluster_request *request)
{
    struct peers_join *join = CONTAINER(request, struct peers_join, request);

    ASSERT(join->active);
    join->active = false;
    join->answered =
        request->status == 0 &&
        member_answer_decode(request->reply.data, request->reply.len, &join->answer) == 0;
    buf_free(&request->payload);
    buf_free(&request->reply);
}

/* Answer the joining node: it is a member, or the leader's answer, or it must wait. *bytes: of the
 * configuration in the answer. */
static void ask_for(struct peers *peers, uint64_t peer, const char *address,
                    struct wire_joined *joined, struct buf *bytes)
{
    const struct raft_context *on = peers->on;
    struct peers_join *join = &peers->join;
    struct member_ask ask = {.kind = MEMBER_ASK_ADD, .node_id = peer};
    struct configuration applied;
    uint64_t other = 0; /* the member that the node replaces */
    bool is_member = false;
    bool replaces;

    applier_configured(&on->driver->applier, &applied);
    MEMBER_FOREACH (member, &applied) {
        if (strcmp(context_address(on, member), address) == 0) {
            is_member = is_member || member->id == peer;
            other = other == 0 && member->id != peer ? member->id : other;
        }
    }
    replaces = on->config->replace_lost && other != 0 && !context_reaches(on, other);
    if (is_member) { /* then it may begin */
        joined->answer.outcome = MEMBER_DONE;
        joined->conf = applied_conf(peers, bytes);
    } else if (join->answered && join->node_id == peer && join->answer.outcome != MEMBER_PENDING &&
               join->answer.outcome != MEMBER_DONE) {
        joined->answer = join->answer; /* once; the next request begins anew */
        join->answered = false;
    } else {
        joined->answer.outcome =
            join->active && join->node_id != peer ? MEMBER_IN_PROGRESS : MEMBER_PENDING;
        if (join->active) {
            return;
        }
        if (replaces) {
            log_warn("raft", "a member is replaced by a node at its address",
                     "lost=%llu by=%llu address=%s", ull(other), ull(peer), address);
            /* The leader may refuse the removal: there may be no majority left without it. */
            ask = (struct member_ask){.kind = MEMBER_ASK_REMOVE, .node_id = other};
        } else {
            ASSERT(strlen(address) <= LIMIT_ADDRESS_BYTES);
            memcpy(ask.address, address, strlen(address));
        }
        *join = (struct peers_join){.node_id = peer, .active = true};
        join->request = (struct cluster_request){.kind = CLUSTER_REQUEST_MEMBER,
                                                 .deadline_ms = context_now_ms(on) + JOIN_WAIT_MS,
                                                 .done = on_join_done};
        member_ask_encode(&ask, &join->request.payload);
        on->submit(on, &join->request);
    }
}

bool peers_join(struct net_receiver *receiver, uint64_t peer, const void *request, size_t len,
                struct buf *answer)
{
    struct peers *peers = CONTAINER(receiver, struct peers, receiver);
    struct wire_joined joined = {.birth = birth_watch_report(&peers->births)};
    struct wire_join said;
    BUF_LOCAL(conf);
    const char *why;

    if (peers->on->stopping || wire_join_decode(request, len, &said) != 0 ||
        !member_address_check(said.address, strlen(said.address), &why)) {
        return false;
    }
    joined.answer.outcome = MEMBER_PENDING;
    if (uid_is_none(&joined.birth.uid)) { /* only if there is a cluster */
        joined.answer.outcome = MEMBER_NO_QUORUM;
        (void)snprintf(joined.answer.why, sizeof joined.answer.why,
                       "node %llu has not heard of its cluster's birth yet",
                       ull(peers->on->node_id));
    } else if (uid_is_none(&said.birth.uid) || uid_equal(&joined.birth.uid, &said.birth.uid)) {
        /* Not if another cluster has answered it already: the uid in the answer shows that. */
        ask_for(peers, peer, said.address, &joined, &conf);
    }
    wire_joined_encode(&joined, answer);
    return true;
}

/* --- what this node reports of itself --- */

void peers_report(const struct peers *peers, uint64_t to)
{
    const struct raft_context *on = peers->on;
    struct wire_durable report;

    if (!driver_durable(on->driver, &report)) {
        return;
    }
    if (to != 0) {
        (void)context_send_durable(on, to, FRAME_DURABLE, &report);
        return;
    }
    MEMBER_FOREACH (member, driver_configuration(on->driver)) {
        if (member->id != on->node_id) {
            (void)context_send_durable(on, member->id, FRAME_DURABLE, &report);
        }
    }
}

static void on_report_due(struct timer *timer, uint64_t now_ms)
{
    struct peers *peers = CONTAINER(timer, struct peers, report);
    struct wire_durable now;

    timer_arm(peers->on->timers, timer, now_ms + PEERS_REPORT_CHANGED_MS);
    if (driver_durable(peers->on->driver, &now) && (memcmp(&now, &peers->told, sizeof now) != 0 ||
                                                    now_ms >= peers->told_ms + PEERS_REPORT_MS)) {
        peers_report(peers, 0);
        peers->told = now;
        peers->told_ms = now_ms;
    }
}

void peers_init(struct peers *peers, const struct raft_context *on, const struct birth_list *list)
{
    *peers = (struct peers){
        .on = on,
        .receiver = {.judge = peers_judge, .introduce = peers_state, .join = peers_join},
        .births = {.on = on, .list = *list, .told.wakes = WAKE_BIRTHS}};
    if (on->config->learned != NULL) {
        peers->learned = *on->config->learned;
        peers->births.learned = peers->learned.birth;
    }
    timer_init(&peers->report, on_report_due);
    timer_arm(on->timers, &peers->report, context_now_ms(on));
}

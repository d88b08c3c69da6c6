/*
 * birth_watch.c - see birth_watch.h. Thread: the raft loop.
 */
#include "raft/cluster/birth_watch.h"

#include <string.h>

#include "raft/core/prepare.h"
#include "src/base/assert.h"
#include "src/base/hash.h"

/* --- the first list --- */

/* In the order of ids: whoever writes the same list in another order means the same. */
static void put_members(const struct configuration *members, struct buf *text)
{
    uint64_t after = 0;

    for (unsigned n = 0; n < members->count; n++) {
        const struct conf_member *next = NULL;

        for (unsigned i = 0; i < members->count; i++) {
            const struct conf_member *member = &members->members[i];

            if (member->id > after && (next == NULL || member->id < next->id)) {
                next = member;
            }
        }
        ASSERT(next != NULL);
        after = next->id;
        buf_put_u64(text, next->id);
        buf_put_str16(text, next->address, strlen(next->address));
    }
}

static uint64_t digest_of(const struct configuration *members, const char *cluster_id,
                          const struct service *service)
{
    BUF_LOCAL(text);
    uint64_t digest;

    put_members(members, &text);
    buf_put_str16(&text, cluster_id, strlen(cluster_id));
    buf_put(&text, service->agreed, service->agreed_len);
    digest = hash_bytes(text.data, text.len, 0);
    return digest != 0 ? digest : 1;
}

void birth_list_read(const struct store_loaded *loaded, uint64_t node_id, const char *cluster_id,
                     const struct service *service, struct birth_list *ret_list)
{
    *ret_list = (struct birth_list){.digest = 0};
    /* A log that begins later is of a cluster whose birth is among the rows. */
    if (!prepare_first_list(loaded, &ret_list->members) ||
        configuration_find(&ret_list->members, node_id) == NULL) {
        ret_list->members.count = 0;
        return;
    }
    ret_list->digest = digest_of(&ret_list->members, cluster_id, service);
}

/* --- who is of which cluster --- */

void birth_watch_init(struct birth_watch *watch, const struct raft_context *on,
                      const struct birth_list *list, const struct wire_birth *learned)
{
    *watch = (struct birth_watch){.on = on, .list = *list};
    if (learned != NULL) {
        watch->learned = *learned;
    }
}

struct wire_birth birth_watch_said(const struct birth_watch *watch)
{
    struct birth birth;

    if (state_birth(watch->on->state, &birth)) {
        return (struct wire_birth){birth.uid, birth.list_digest};
    }
    return !uid_is_none(&watch->learned.uid)
               ? watch->learned
               : (struct wire_birth){.list_digest = watch->list.digest};
}

static enum birth_wait birth_compare(const struct wire_birth *own, const struct wire_birth *said)
{
    bool own_born = !uid_is_none(&own->uid);
    bool said_born = !uid_is_none(&said->uid);

    if (own_born && said_born) {
        return uid_equal(&own->uid, &said->uid) ? BIRTH_WAIT_BORN : BIRTH_WAIT_OTHER_CLUSTER;
    }
    /* One that joined has no list of its own, and was let in by the leader. */
    if (own->list_digest != 0 && said->list_digest != 0 && own->list_digest != said->list_digest) {
        return BIRTH_WAIT_OTHER_LIST;
    }
    if (said_born) {
        return BIRTH_WAIT_BORN;
    }
    return said->list_digest != 0 ? BIRTH_WAIT_NONE : BIRTH_WAIT_UNMET;
}

static const struct birth_seen *birth_find(const struct birth_watch *watch, uint64_t id)
{
    for (size_t i = 0; i < watch->seen_count; i++) {
        if (watch->seen[i].id == id) {
            return &watch->seen[i];
        }
    }
    return NULL;
}

static bool birth_is_member(const struct birth_watch *watch, uint64_t id)
{
    return configuration_find(&watch->list.members, id) != NULL ||
           driver_member(watch->on->driver, id) != NULL;
}

/* Those that are members no more make room. */
static void forget_strangers(struct birth_watch *watch)
{
    size_t kept = 0;

    for (size_t i = 0; i < watch->seen_count; i++) {
        if (birth_is_member(watch, watch->seen[i].id)) {
            watch->seen[kept++] = watch->seen[i];
        }
    }
    watch->seen_count = kept;
}

/* What is known of a member, to be changed. */
static struct birth_seen *birth_place(struct birth_watch *watch, uint64_t peer)
{
    const struct birth_seen *known = birth_find(watch, peer);

    ASSERT(birth_is_member(watch, peer));
    if (known != NULL) {
        return &watch->seen[known - watch->seen];
    }
    forget_strangers(watch);
    ASSERT(watch->seen_count < LIMIT_PEERS);
    watch->seen[watch->seen_count] = (struct birth_seen){.id = peer, .wait = BIRTH_WAIT_UNMET};
    return &watch->seen[watch->seen_count++];
}

static void note(struct birth_watch *watch, uint64_t peer, enum birth_wait wait)
{
    const struct birth_seen *known = birth_find(watch, peer);

    if (!birth_is_member(watch, peer) || (known != NULL && known->wait == wait)) {
        return;
    }
    watch->changes++;
    context_wake(watch->on, WAKE_BIRTHS | WAKE_SEEN); /* as it waits for somebody */
    birth_place(watch, peer)->wait = wait;
}

/* See that the birth, should this node propose it, names no level above what a first member speaks.
 * One that is not known speaks the first one. */
static void birth_agree_level(const struct birth_watch *watch)
{
    const struct configuration *members = &watch->list.members;
    uint16_t level = state_levels(watch->on->state).max;

    for (unsigned i = 0; i < members->count; i++) {
        const struct birth_seen *known = birth_find(watch, members->members[i].id);
        uint16_t newest = known != NULL && known->level > 0 ? known->level : LEVEL_FIRST;

        if (members->members[i].id != watch->on->node_id && newest < level) {
            level = newest;
        }
    }
    driver_birth_level(watch->on->driver, level);
}

void birth_watch_speaks(struct birth_watch *watch, uint64_t peer, struct level_range levels)
{
    if (!watch->born && birth_is_member(watch, peer)) {
        birth_place(watch, peer)->level = levels.max;
        birth_agree_level(watch);
    }
}

int birth_watch_judge(struct birth_watch *watch, uint64_t peer, const struct wire_birth *said)
{
    struct wire_birth own = birth_watch_said(watch);
    enum birth_wait wait = birth_compare(&own, said);

    note(watch, peer, wait);
    if (wait == BIRTH_WAIT_BORN && uid_is_none(&own.uid)) {
        watch->learned = *said;
    }
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

/* --- what follows --- */

/* Nothing of a cluster has come yet. */
static bool is_unborn(const struct birth_watch *watch)
{
    struct birth birth;

    return watch->list.members.count > 0 && driver_last_index(watch->on->driver) <= 1 &&
           !state_birth(watch->on->state, &birth);
}

size_t birth_watch_waits(const struct birth_watch *watch, struct birth_seen ret_waits[LIMIT_NODES])
{
    const struct configuration *members = &watch->list.members;
    size_t count = 0;

    for (unsigned i = 0; i < members->count && is_unborn(watch); i++) {
        uint64_t id = members->members[i].id;
        const struct birth_seen *known = birth_find(watch, id);
        enum birth_wait wait = known != NULL ? known->wait : BIRTH_WAIT_UNMET;

        if (id != watch->on->node_id && wait != BIRTH_WAIT_NONE) {
            ret_waits[count++] = (struct birth_seen){.id = id, .wait = wait};
        }
    }
    return count;
}

/* Without those of another cluster, is a majority of the voters left? */
static bool has_majority(const struct birth_watch *watch)
{
    const struct configuration *configuration = driver_configuration(watch->on->driver);
    unsigned voters = configuration_voters(configuration);
    unsigned others = 0;

    for (size_t i = 0; i < watch->seen_count; i++) {
        others += watch->seen[i].wait == BIRTH_WAIT_OTHER_CLUSTER &&
                  configuration_role(configuration, watch->seen[i].id) == ROLE_VOTER;
    }
    return others == 0 || (voters - others) * 2 > voters;
}

bool birth_watch_turn(struct birth_watch *watch)
{
    struct birth_seen waits[LIMIT_NODES];
    struct birth birth;

    if (!watch->born && state_birth(watch->on->state, &birth)) {
        watch->born = true;
        watch->changes++;
    }
    birth_agree_level(watch);
    driver_hold(watch->on->driver, birth_watch_waits(watch, waits) > 0 ||
                                       (is_unborn(watch) && !uid_is_none(&watch->learned.uid)));
    return !watch->born || has_majority(watch);
}

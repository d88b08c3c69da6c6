/*
 * cluster_json.c - see cluster_json.h.
 */
#include "http/api/cluster_json.h"

#include "http/proto/text.h"
#include "src/base/assert.h"

void layout_json_put(const struct snowflake *snowflake, const char *before, struct buf *json)
{
    if (snowflake == NULL || !atomic_load_explicit(&snowflake->ready, memory_order_acquire)) {
        buf_printf(json, "%snull", before);
        return;
    }
    buf_printf(json,
               "%s{\"epoch_ms\":%llu,\"time_bits\":%u,\"worker_bits\":%u,\"sequence_bits\":%u}",
               before, ull(snowflake->layout.epoch_ms), snowflake->layout.time_bits,
               snowflake->layout.worker_bits, snowflake->layout.sequence_bits);
}

/* What this node knows of the way to it. */
static void put_link(const struct id_member *member, struct buf *json)
{
    text_put_number(json, ",\"lag\":", member->lag);
    text_put_number(json, ",\"round_trip_us\":", member->round_trip_us);
    if (member->has_clock_offset) {
        buf_printf(json, ",\"clock_offset_ms\":%lld", (long long)member->clock_offset_ms);
    } else {
        buf_printf(json, ",\"clock_offset_ms\":null");
    }
    text_put_number(json, ",\"last_heard_ms\":", member->last_heard_ms);
}

static void put_cluster_member(const struct id_member *member, bool with_links, struct buf *json)
{
    buf_printf(json, "{\"id\":%llu", ull(member->id));
    text_put_field(json, ",\"peer_address\":", member->peer_address);
    text_put_field(json, ",\"http_address\":", member->http_address);
    text_put_field(json, ",\"role\":", member->role);
    text_put_field(json, ",\"version\":", member->version);
    if (member->levels.max != 0) {
        buf_printf(json, ",\"levels\":{\"min\":%u,\"max\":%u}", member->levels.min,
                   member->levels.max);
    } else {
        buf_printf(json, ",\"levels\":null");
    }
    buf_printf(json, ",\"reachable\":%s,\"match_index\":%llu", member->reachable ? "true" : "false",
               ull(member->match_index));
    if (with_links) {
        put_link(member, json);
    }
    buf_printf(json, "}");
}

/* What is being changed, or was left unfinished. */
static void put_change(const struct id_member_change *change, struct buf *json)
{
    if (change->kind == NULL) {
        buf_printf(json, "null");
        return;
    }
    buf_printf(json, "{\"kind\":\"%s\",\"id\":%llu,\"state\":\"%s\"", change->kind,
               ull(change->node_id), change->state);
    if (change->peer_address[0] != '\0') {
        text_put_field(json, ",\"peer_address\":", change->peer_address);
    }
    buf_printf(json, "}");
}

static void put_level(const struct level_row *level, struct buf *json)
{
    char time[TEXT_TIME_BYTES];
    bool known = level->index != 0;

    buf_printf(json, "{\"number\":%u", level->level);
    text_put_field(json, ",\"since\":", known ? text_time_rfc3339(level->wall_ms, time) : NULL);
    text_put_number(json, ",\"index\":", known ? level->index : TEXT_UNKNOWN);
    buf_printf(json, "}");
}

void cluster_json_put(const struct id_cluster_status *status, bool with_links, struct buf *json)
{
    char uid[UID_TEXT_BYTES];

    ASSERT(status->member_count <= LIMIT_NODES);
    text_put_field(json, "\"cluster_id\":", status->cluster_id);
    text_put_field(json,
                   ",\"uid\":", uid_is_none(&status->uid) ? NULL : uid_text(&status->uid, uid));
    buf_printf(json, ",\"node_id\":%llu,\"state\":\"%s\"", ull(status->node_id),
               id_node_state_name(status->state));
    text_put_number(json,
                    ",\"leader_id\":", status->leader_id != 0 ? status->leader_id : TEXT_UNKNOWN);
    buf_printf(json, ",\"term\":%llu,\"commit_index\":%llu,\"applied_index\":%llu,\"level\":",
               ull(status->term), ull(status->commit_index), ull(status->applied_index));
    put_level(&status->level, json);
    buf_printf(json, ",\"members\":[");
    for (size_t i = 0; i < status->member_count; i++) {
        buf_printf(json, "%s", i > 0 ? "," : "");
        put_cluster_member(&status->members[i], with_links, json);
    }
    buf_printf(json, "],\"change\":");
    put_change(&status->change, json);
}

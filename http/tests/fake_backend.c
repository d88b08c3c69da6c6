/*
 * fake_backend.c - see fake_backend.h.
 */
#include "http/tests/fake_backend.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"
#include "src/id/snowflake/snowflake.h"

struct http_reloads fake_reloads;

struct auth *fake_auth(void)
{
    static const struct auth_settings all = {.web = {.hosts = "*", .origins = "*"},
                                             .anonymous_roles = ROLES_ALL};
    static struct auth *auth;
    char why[TOKENS_WHY_BYTES];

    ASSERT(auth != NULL || auth_new(&all, NULL, 0, &auth, why) == 0);
    return auth;
}

static void grant(struct fake *fake, struct id_tag *tag);

static void lock(struct fake *fake)
{
    ASSERT(pthread_mutex_lock(&fake->mutex) == 0);
}

static void unlock(struct fake *fake)
{
    ASSERT(pthread_mutex_unlock(&fake->mutex) == 0);
}

static void submit_cb(struct id_backend *backend, struct cluster_request *request)
{
    struct fake *fake = (struct fake *)backend;

    lock(fake);
    if (fake->watch != NULL) {
        fake->watch(fake->watch_data, request);
    }
    TAILQ_INSERT_TAIL(&fake->requests, request, link);
    fake->submitted++;
    fake->last_deadline_ms = request->deadline_ms;
    if (request->kind == CLUSTER_REQUEST_COMMAND) {
        fake->change_wait_ms = request->deadline_ms - clock_now_ms(&fake->clock);
    } else if (request->kind == CLUSTER_REQUEST_BARRIER && !request->local) {
        fake->all_wait_ms = request->deadline_ms - clock_now_ms(&fake->clock);
    }
    fake->last_local = request->local;
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
}

static void want_cb(struct id_backend *backend, struct id_tag *tag)
{
    struct fake *fake = (struct fake *)backend;

    lock(fake);
    ASSERT(atomic_load(&tag->refill_wanted));
    ASSERT(fake->want_count < FAKE_WANTS_MAX);
    fake->wants[fake->want_count++] = tag;
    fake->wanted++;
    while (fake->prompt && fake->want_count > 0) {
        grant(fake, fake->wants[--fake->want_count]);
    }
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
}

static void notify_cb(struct id_backend *backend)
{
    struct fake *fake = (struct fake *)backend;

    lock(fake);
    fake->notified++;
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
}

static uint64_t clock_now_cb(const struct clock *clock)
{
    const struct fake *fake = clock->data;
    uint64_t now_ms = atomic_load(&fake->now_ms);

    return now_ms != 0 ? now_ms : clock_now_ms(clock_system());
}

static uint64_t clock_wall_cb(const struct clock *clock)
{
    struct fake *fake = clock->data;
    uint64_t wall_ms = atomic_load(&fake->wall_ms);

    return wall_ms != 0 ? wall_ms : clock_wall_ms(clock_system());
}

static void wake(struct fake *fake, struct id_tag *tag)
{
    uint64_t loops = atomic_exchange(&tag->waiting_loops, 0);

    if (loops != 0 && fake->waker != NULL) {
        fake->waker->wake(fake->waker, tag, loops);
    }
}

/* Stamped as the next command of node 1, unless it is one that comes again. */
static void apply(struct fake *fake, struct buf *command, struct buf *result)
{
    struct row_changes changes = {0};
    struct session_stamp stamp;

    if (session_stamp_read(command->data, command->len, &stamp) == 0 && stamp.node_id == 0) {
        stamp = (struct session_stamp){1, 1, fake->index + 1, fake->index + 1};
        session_stamp_put(command, &stamp);
    }
    ASSERT(state_apply(fsm_state(fake->fsm), ++fake->index, 1, command->data, command->len, result,
                       &changes) != ERR_DIVERGED);
    row_changes_release(&changes);
}

/* Grant the tag a segment through the state machine, as the real thing does. */
static void grant(struct fake *fake, struct id_tag *tag)
{
    struct grant_item item = {tag->name, tag->name_len, fake->grant_size};
    struct grant_result result;
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;
    size_t count;

    if (!segment_can_publish(&tag->buffer)) {
        /* Wanted by a claimer that looked before the last refill: a grant now would be lost. */
        atomic_store(&tag->refill_wanted, false);
        return;
    }
    command_put(&command, COMMAND_GRANT, &(struct command_list){.wall_ms = 1000});
    command_item_put(&command, COMMAND_GRANT, &item);
    command_items_end(&command);
    apply(fake, &command, &reply);
    ASSERT(results_decode(RESULT_GRANTS, reply.data, reply.len, &result, 1, &count) == 0 &&
           count == 1);
    if (result.status == 0) {
        atomic_store(&tag->refill.max_step, result.max_step);
        segment_publish(&tag->buffer, result.first, result.size, result.increment,
                        result.generation);
    } else if (result.status == ERR_EXHAUSTED) {
        atomic_store(&tag->state, ID_TAG_EXHAUSTED);
    } else if (result.status == ERR_UNKNOWN_TAG) {
        atomic_store(&tag->state, ID_TAG_UNKNOWN);
    }
    atomic_store(&tag->refill_wanted, false);
    wake(fake, tag);
    /* The ids may have gone to others before the waker came: those left after want more. */
    if (atomic_load(&tag->demand) > 0 && atomic_load(&tag->state) == ID_TAG_ACTIVE &&
        segment_can_publish(&tag->buffer) && !atomic_exchange(&tag->refill_wanted, true)) {
        ASSERT(fake->want_count < FAKE_WANTS_MAX);
        fake->wants[fake->want_count++] = tag;
    }
    buf_free(&command);
    buf_free(&reply);
}

static int open_tag(struct fake *fake, const struct cluster_request *request)
{
    const char *name = (const char *)request->payload.data;
    size_t len = request->payload.len;
    const struct tag_row *row = fsm_tag(fake->fsm, name, len);
    struct id_tag *tag;

    if (row == NULL || row->deleted) {
        return ERR_UNKNOWN_TAG;
    }
    tag = id_table_insert(fake->backend.table, name, len);
    ASSERT(tag != NULL);
    id_tag_take_shape(tag, row);
    atomic_store(&tag->refill.max_step, row->max_step);
    atomic_store(&tag->refill.step, row->step);
    atomic_store(&tag->increment, row->increment);
    if (row->mode == TAG_MODE_STRICT) {
        atomic_store(&tag->state, ID_TAG_STRICT);
    } else if (atomic_load(&tag->state) != ID_TAG_EXHAUSTED) {
        /* One of the same generation stays exhausted. */
        atomic_store(&tag->state, ID_TAG_ACTIVE);
    }
    return 0;
}

static void list_segments(struct fake *fake, struct id_segments_page *page)
{
    struct id_tag *tag = id_table_after(fake->backend.table, NULL);
    size_t count = 0;

    while (tag != NULL) {
        tag = id_table_after(fake->backend.table, tag);
        count++;
    }
    tag = id_table_after(fake->backend.table, NULL);
    page->items = calloc(count + 1, sizeof *page->items);
    ASSERT(page->items != NULL);
    for (; tag != NULL; tag = id_table_next(fake->backend.table, "", 0, tag->name, tag->name_len)) {
        struct id_segment_info *info = &page->items[page->count++];

        memcpy(info->name, tag->name, tag->name_len);
        info->name_len = tag->name_len;
        info->state = atomic_load(&tag->state);
        info->step = 1000;
        info->last_refill_ago_ms = page->count == 1 ? UINT64_MAX : 7;
        info->lasts_s = UINT64_MAX;
        segment_inspect(&tag->buffer, info->slots);
    }
    page->more = true;
}

static void list_buffers(const struct fake *fake, struct id_buffers *out)
{
    *out = fake->buffers;
    for (size_t i = 0; i < out->count; i++) {
        struct id_segments_page *page = &out->nodes[i].page;
        const struct id_segment_info *items = page->items;

        page->items = calloc(page->count + 1, sizeof *page->items);
        ASSERT(page->items != NULL);
        for (size_t at = 0; at < page->count; at++) {
            page->items[at] = items[at];
        }
    }
}

/* One strict request, as a batch of its own. */
static int take_strict(struct fake *fake, struct cluster_request *request)
{
    struct command_list batch = {.wall_ms = 1, .key_limit = 4, .key_share = fake->key_share};
    struct strict_result result;
    struct strict_item item;
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;
    size_t count = 0;

    ASSERT(strict_item_decode(request->payload.data, request->payload.len, &item) == 0);
    if (fake->strict_answer != NULL) {
        result = *fake->strict_answer;
    } else {
        command_put(&command, COMMAND_STRICT, &batch);
        command_item_put(&command, COMMAND_STRICT, &item);
        command_items_end(&command);
        apply(fake, &command, &reply);
        ASSERT(results_decode(RESULT_STRICT, reply.data, reply.len, &result, 1, &count) == 0);
        buf_free(&command);
        buf_free(&reply);
    }
    results_encode(RESULT_STRICT, &result, 1, &request->reply);
    return result.status;
}

static int take_backup(struct fake *fake, struct cluster_request *request)
{
    struct id_backup *what = request->out;

    if (what->close) {
        fake->backups_closed++;
        pthread_cond_broadcast(&fake->changed);
        return 0;
    }
    if (fake->backup_parts == 0) {
        return ERR_OVERLOADED;
    }
    fake->last_local = what->local;
    fake->backup_part = what->number == 0 ? 1 : fake->backup_part + 1;
    if (fake->backup_part == fake->backup_fails_at) {
        return ERR_CORRUPT;
    }
    what->number = 7;
    what->end = fake->backup_part == fake->backup_parts;
    for (size_t i = 0; i < fake->backup_part_bytes; i++) {
        buf_put_u8(&request->reply, (uint8_t)fake->backup_part);
    }
    return 0;
}

static int carry_out(struct fake *fake, struct cluster_request *request)
{
    switch (request->kind) {
    case CLUSTER_REQUEST_COMMAND:
        apply(fake, &request->payload, &request->reply);
        if (fake->repeat) {
            buf_free(&request->reply);
            apply(fake, &request->payload, &request->reply);
        }
        request->index = fake->index;
        return 0;
    case CLUSTER_REQUEST_QUERY:
        return fsm_query(fake->fsm, request->payload.data, request->payload.len, &request->reply);
    case ID_REQUEST_OPEN:
        return open_tag(fake, request);
    case CLUSTER_REQUEST_BARRIER:
        fake->everywhere_index = request->index;
        if (request->local) {
            return 0;
        }
        *(struct missing_members *)request->out = fake->missing;
        return fake->everywhere_status;
    case ID_REQUEST_BACKUP:
        return take_backup(fake, request);
    case ID_REQUEST_STATUS:
        *(struct id_cluster_status *)request->out = fake->cluster;
        return 0;
    case ID_REQUEST_SEGMENTS:
        list_segments(fake, request->out);
        return 0;
    case ID_REQUEST_BUFFERS:
        list_buffers(fake, request->out);
        return 0;
    case ID_REQUEST_STRICT:
        return take_strict(fake, request);
    case CLUSTER_REQUEST_MEMBER:
        ASSERT(member_ask_decode(request->payload.data, request->payload.len, &fake->asked) == 0);
        member_answer_encode(&fake->member_answer, &request->reply);
        return 0;
    case CLUSTER_REQUEST_LEADER: /* of the batcher alone */
        break;
    }
    UNREACHABLE("a kind of request");
}

static void answer(struct fake *fake, struct cluster_request *request)
{
    request->status = fake->fail_with != 0 ? fake->fail_with : carry_out(fake, request);
    if (fake->wrong_reply) {
        buf_free(&request->reply);
        buf_put(&request->reply, "nonsense", 8);
    }
    unlock(fake);
    request->done(request);
    lock(fake);
}

/* The oldest that is not held; NULL: none. */
static struct cluster_request *next_request(struct fake *fake)
{
    struct cluster_request *request;

    if (fake->hold_requests && !fake->stop) {
        return NULL;
    }
    TAILQ_FOREACH (request, &fake->requests, link) {
        bool held = request->kind == CLUSTER_REQUEST_BARRIER && !request->local && fake->hold_all &&
                    request->deadline_ms > clock_now_ms(&fake->clock);

        if (!held || fake->stop) {
            return request;
        }
    }
    return NULL;
}

/* The next thing that may be done; false if there is none. */
static bool work(struct fake *fake)
{
    struct cluster_request *request = next_request(fake);
    bool may_grant = fake->want_count > 0 && !fake->hold_wants && !fake->stop;

    if (may_grant && (fake->still || request == NULL)) {
        grant(fake, fake->wants[--fake->want_count]);
    } else if (request != NULL) {
        TAILQ_REMOVE(&fake->requests, request, link);
        answer(fake, request);
    }
    return may_grant || request != NULL;
}

static void *fake_run(void *data)
{
    struct fake *fake = data;

    lock(fake);
    for (;;) {
        if (work(fake)) {
            continue;
        }
        if (fake->stop) {
            break;
        }
        pthread_cond_wait(&fake->changed, &fake->mutex);
    }
    unlock(fake);
    return NULL;
}

bool fake_turn(struct fake *fake)
{
    bool worked = false;

    ASSERT(fake->still);
    lock(fake);
    while (work(fake)) {
        worked = true;
    }
    unlock(fake);
    return worked;
}

void fake_serve(struct fake *fake, struct cluster_request *request)
{
    lock(fake);
    answer(fake, request);
    unlock(fake);
}

void fake_start_still(struct fake *fake)
{
    static const struct id_backend_ops ops = {
        .submit = submit_cb, .want = want_cb, .notify = notify_cb};

    memset(fake, 0, sizeof *fake);
    fake->key_share = 4;
    fake->still = true;
    TAILQ_INIT(&fake->requests);
    pthread_mutex_init(&fake->mutex, NULL);
    pthread_cond_init(&fake->changed, NULL);
    fake->fsm = fsm_of(state_new(&fsm_machine));
    fake->clock = (struct clock){.now_ms = clock_now_cb, .wall_ms = clock_wall_cb, .data = fake};
    fake->backend = (struct id_backend){.ops = &ops,
                                        .table = id_table_new(0),
                                        .snowflake = &fake->snowflake,
                                        .health = &fake->health,
                                        .clock = &fake->clock,
                                        .refill_percent = REFILL_DEFAULT_PERCENT};
    snowflake_init(&fake->snowflake, &fake->clock);
    atomic_store(&fake->snowflake.refusal, ERR_DISABLED);
    atomic_store(&fake->health.started, true);
    atomic_store(&fake->health.uid_high, 0xf81d4fae7dec41d0);
    atomic_store(&fake->health.uid_low, 0xa76500a0c91e6bf6);
    atomic_store(&fake->health.leader_known, true);
    fake_set_wall(fake, 0);
    atomic_store(&fake->health.applied_once, true);
}

void fake_start(struct fake *fake)
{
    fake_start_still(fake);
    fake->still = false;
    ASSERT(pthread_create(&fake->thread, NULL, fake_run, fake) == 0);
}

void fake_stop(struct fake *fake)
{
    lock(fake);
    fake->stop = true;
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
    if (fake->still) {
        (void)fake_turn(fake);
    } else {
        pthread_join(fake->thread, NULL);
    }
    ASSERT(TAILQ_EMPTY(&fake->requests));
    state_free(fsm_state(fake->fsm));
    snowflake_release(&fake->snowflake);
    id_table_free(fake->backend.table);
    pthread_cond_destroy(&fake->changed);
    pthread_mutex_destroy(&fake->mutex);
}

void fake_set_waker(struct fake *fake, struct id_waker *waker)
{
    lock(fake);
    fake->waker = waker;
    unlock(fake);
}

static void on_named_layout_changed(struct fsm_listener *listener, const struct layout_row *row)
{
    snowflake_learn(&CONTAINER(listener, struct fake, listener)->snowflake, row);
}

void fake_snowflake(struct fake *fake)
{
    atomic_store(&fake->snowflake.refusal, 0);
    fake->listener = (struct fsm_listener){.named_layout_changed = on_named_layout_changed};
    fsm_listen(fake->fsm, &fake->listener);
}

void fake_set_wall(struct fake *fake, uint64_t wall_ms)
{
    atomic_store(&fake->wall_ms, wall_ms);
    atomic_store(&fake->health.clock_line_ms,
                 (int64_t)(clock_wall_ms(&fake->clock) - clock_now_ms(&fake->clock)));
}

/* Apply a command of the cluster's own and drop its result. */
static void apply_own(struct fake *fake, struct buf *command)
{
    struct buf reply = BUF_INIT;
    int32_t status;

    lock(fake);
    apply(fake, command, &reply);
    unlock(fake);
    ASSERT(status_result_decode(reply.data, reply.len, &status) == 0 && status == 0);
    buf_free(command);
    buf_free(&reply);
}

void fake_log_level(struct fake *fake, uint16_t level)
{
    struct buf command = BUF_INIT;

    for (uint16_t to = (uint16_t)(state_level(fsm_state(fake->fsm)) + 1); to <= level; to++) {
        cluster_command_put(&command, COMMAND_LEVEL,
                            &(struct level_command){.to = to, .wall_ms = 1});
        apply_own(fake, &command);
    }
    atomic_store(&fake->health.level, level);
}

void fake_log_time(struct fake *fake, uint64_t log_ms)
{
    struct buf command = BUF_INIT;

    cluster_command_put(&command, COMMAND_CLOCK, &(struct clock_command){.cluster_ms = log_ms});
    apply_own(fake, &command);
}

void fake_log_layout(struct fake *fake, const struct snowflake_layout *layout)
{
    struct buf command = BUF_INIT;

    command_put(&command, COMMAND_LAYOUT, layout);
    apply_own(fake, &command);
}

void fake_log_acquire(struct fake *fake, struct worker_acquire acquire)
{
    struct worker_result result;
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;

    acquire.name_len = (uint16_t)strlen(acquire.name);
    acquire.address = "";
    command_put(&command, command_type_for(COMMAND_WORKER_ACQUIRE, &acquire), &acquire);
    lock(fake);
    apply(fake, &command, &reply);
    unlock(fake);
    ASSERT(worker_result_decode(reply.data, reply.len, &result) == 0 && result.status == 0);
    buf_free(&command);
    buf_free(&reply);
}

void fake_repeat(struct fake *fake, bool repeat)
{
    lock(fake);
    fake->repeat = repeat;
    unlock(fake);
}

void fake_make_tag(struct fake *fake, const char *name, uint64_t max_id, uint32_t step,
                   uint32_t max_step)
{
    struct tag_put put = {.name = name,
                          .name_len = (uint16_t)strlen(name),
                          .fields = TAG_FIELD_MAX_ID | TAG_FIELD_STEP | TAG_FIELD_MAX_STEP,
                          .max_id = max_id,
                          .step = step,
                          .max_step = max_step};
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;

    lock(fake);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = true, .wall_ms = 1000});
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    apply(fake, &command, &reply);
    unlock(fake);
    buf_free(&command);
    buf_free(&reply);
}

void fake_set_mode(struct fake *fake, const char *name, enum tag_mode mode)
{
    struct tag_put put = {.name = name,
                          .name_len = (uint16_t)strlen(name),
                          .fields = TAG_FIELD_MODE,
                          .mode = (uint8_t)mode};
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;

    lock(fake);
    command_put(&command, COMMAND_TAGS_PUT, &(struct command_list){.force = true, .wall_ms = 1000});
    command_item_put(&command, COMMAND_TAGS_PUT, &put);
    command_items_end(&command);
    apply(fake, &command, &reply);
    unlock(fake);
    buf_free(&command);
    buf_free(&reply);
}

void fake_strict_answer(struct fake *fake, const struct strict_result *result)
{
    lock(fake);
    fake->strict_answer = result;
    unlock(fake);
}

void fake_delete_tag(struct fake *fake, const char *name)
{
    struct buf command = BUF_INIT;
    struct buf reply = BUF_INIT;

    lock(fake);
    command_put(&command, COMMAND_TAG_DELETE,
                &(struct delete_command){
                    .name = name, .name_len = (uint16_t)(strlen(name)), .wall_ms = 2000});
    apply(fake, &command, &reply);
    unlock(fake);
    buf_free(&command);
    buf_free(&reply);
}

/* As what the buffer has, or else the row, as grants do. */
static void publish_more(struct fake *fake, struct id_tag *tag, uint64_t first, uint32_t size)
{
    const struct tag_row *row = fsm_tag(fake->fsm, tag->name, tag->name_len);
    uint64_t terms = atomic_load(&tag->buffer.terms);

    if (terms == 0 && row != NULL) {
        terms = (uint64_t)row->generation << 32;
    }
    segment_publish(&tag->buffer, first, size, (uint32_t)terms, (uint32_t)(terms >> 32));
}

struct id_tag *fake_open(struct fake *fake, const char *name, uint64_t first, uint32_t size)
{
    const struct tag_row *row;
    struct id_tag *tag;

    lock(fake);
    tag = id_table_insert(fake->backend.table, name, strlen(name));
    ASSERT(tag != NULL);
    row = fsm_tag(fake->fsm, name, strlen(name));
    if (row != NULL) {
        id_tag_take_shape(tag, row);
    }
    if (size > 0) {
        publish_more(fake, tag, first, size);
    }
    unlock(fake);
    return tag;
}

void fake_publish(struct fake *fake, struct id_tag *tag, uint64_t first, uint32_t size)
{
    while (!segment_can_publish(&tag->buffer)) {
        sched_yield(); /* a claimer that asked before it had seen the last range, and sees it yet */
    }
    lock(fake);
    publish_more(fake, tag, first, size);
    atomic_store(&tag->refill_wanted, false);
    wake(fake, tag);
    unlock(fake);
}

void fake_set_state(struct fake *fake, struct id_tag *tag, enum id_tag_state state)
{
    lock(fake);
    atomic_store(&tag->state, state);
    wake(fake, tag);
    unlock(fake);
}

void fake_hold(struct fake *fake, bool requests, bool wants)
{
    lock(fake);
    fake->hold_requests = requests;
    fake->hold_wants = wants;
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
}

void fake_everywhere(struct fake *fake, int status, const struct missing_members *missing)
{
    lock(fake);
    fake->everywhere_status = status;
    fake->missing = *missing;
    unlock(fake);
}

void fake_hold_all(struct fake *fake, bool hold)
{
    lock(fake);
    fake->hold_all = hold;
    pthread_cond_broadcast(&fake->changed);
    unlock(fake);
}

void fake_release(struct fake *fake)
{
    fake_hold(fake, false, false);
}

void fake_fail_with(struct fake *fake, int err)
{
    lock(fake);
    fake->fail_with = err;
    unlock(fake);
}

static void set_default(uint32_t *setting, uint32_t value)
{
    if (*setting == 0) {
        *setting = value;
    }
}

static void set_default_bytes(uint64_t *setting, uint64_t value)
{
    if (*setting == 0) {
        *setting = value;
    }
}

static void set_default_text(const char **setting)
{
    *setting = *setting != NULL ? *setting : "";
}

void fake_settings(struct http_settings *settings)
{
    settings->listen_address = "127.0.0.1:0";
    set_default_text(&settings->proxies);
    set_default_text(&settings->resp_address);
    set_default_text(&settings->resp_shown);
    set_default(&settings->loops, 1);
    set_default(&settings->default_timeout_ms, HTTP_DEFAULT_TIMEOUT_MS);
    set_default(&settings->head_ms, LIMIT_HTTP_HEAD_MS);
    set_default(&settings->body_ms, LIMIT_HTTP_BODY_MS);
    set_default(&settings->idle_ms, LIMIT_HTTP_IDLE_MS);
    set_default(&settings->resp_idle_ms, LIMIT_RESP_IDLE_MS);
    set_default(&settings->write_ms, LIMIT_HTTP_WRITE_MS);
    set_default(&settings->connections, LIMIT_HTTP_CONNECTIONS);
    set_default(&settings->min_rate_bytes, HTTP_DEFAULT_MIN_RATE_BYTES);
    set_default(&settings->worker_percent, 25);
    set_default_bytes(&settings->tags_bytes, UINT64_MAX);
    set_default_bytes(&settings->bodies_bytes, 64 << 20);
    set_default_bytes(&settings->client_bodies_bytes, 16 << 20);
    set_default_bytes(&settings->output_bytes, 64 << 20);
    set_default_bytes(&settings->input_bytes, 32 << 20);
}

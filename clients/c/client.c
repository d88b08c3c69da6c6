/* See client.h and leafd.h. */
#include "client.h"

#include "discover.h"
#include "fake.h"
#include "fault.h"
#include "text.h"
#include "wipe.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 512 * 1024 };

/* --- the hook --- */

static _Thread_local unsigned hooks; /* that this thread is in */

bool client_in_hook(void)
{
    return hooks > 0;
}

void client_event(const struct leafd *client, struct leafd_event event)
{
    if (client->hook != NULL) {
        event.name = event.name != NULL ? event.name : "";
        event.from = event.from != NULL ? event.from : "";
        event.to = event.to != NULL ? event.to : "";
        event.code = event.code != NULL ? event.code : "";
        hooks++;
        client->hook(client->hook_user, &event);
        hooks--;
    }
}

/* --- making, and a child of fork --- */

/* What is not there yet, or of no use in a child. */
static void start_anew(struct leafd *client)
{
    pthread_mutex_init(&client->lock, NULL);
    pthread_mutex_init(&client->closing, NULL);
    condition_init(&client->changed);
    client->first_job = NULL;
    client->last_job = &client->first_job;
    client->thread_count = client->idle_threads = 0;
    client->ageing = false;
    client->age_ns = UINT64_MAX;
}

struct leafd *leafd_open(const char *const *settings, struct leafd_error *error)
{
    struct leafd *client = calloc(1, sizeof *client);
    if (client == NULL) {
        (void)fault(error, "no_memory", 0, false, "there is no memory for a client");
        return NULL;
    }
    if (settings_read(&client->settings, settings, error) != 0) {
        free(client);
        return NULL;
    }
    client->alive = wipe_new(sizeof *client->alive);
    if (client->alive == NULL) {
        (void)fault(error, "no_memory", 0, false,
                    "there is no memory that a fork wipes (Linux 4.14 has it)");
        free(client);
        return NULL;
    }
    atomic_store(client->alive, ALIVE);
    char key[TEXT_OWN_KEY_CHARS + 1];
    text_make_key(key);
    bool has_ids = door_init(&client->ids, &client->settings.ids, (unsigned)key[0] * 31);
    if (!has_ids || !door_init(&client->admin, &client->settings.admin, (unsigned)key[1] * 31)) {
        (void)fault(error, "no_memory", 0, false, "there is no memory for a client");
        if (has_ids) {
            door_release(&client->ids);
        }
        wipe_free((void *)client->alive, sizeof *client->alive);
        free(client);
        return NULL;
    }
    const struct settings *made = &client->settings;
    bool discover =
        made->discover == DISCOVER || (made->discover == DISCOVER_WITH_ZONE && made->zone[0] != 0);
    client->ids.discovery.wanted = discover;
    client->admin.discovery.wanted = discover && !made->has_admin;
    client->admin.discovery.for_snowflake = true;
    lines_init(&client->lines, &client->settings);
    start_anew(client);
    return client;
}

/* The child has one thread, which came here first, or has started others that wait. */
static void renew(struct leafd *client)
{
    hooks = 0; /* nobody waits for this thread, which does not return from the hook */
    memset(&client->counters, 0, sizeof client->counters);
    lines_forget(&client->lines);
    char key[TEXT_OWN_KEY_CHARS + 1];
    text_make_key(key);
    door_forget(&client->ids, (unsigned)key[0] * 31);
    door_forget(&client->admin, (unsigned)key[1] * 31);
    discover_forget(client);
    start_anew(client);
    for (struct source *source = client->sources; source != NULL; source = source->next) {
        source->kind->forget(source);
    }
}

int client_enter(struct leafd *client, struct leafd_error *error)
{
    while (atomic_load_explicit(client->alive, memory_order_acquire) != ALIVE) {
        int expected = INHERITED;
        if (atomic_compare_exchange_strong(client->alive, &expected, RENEWING)) {
            renew(client);
            atomic_store_explicit(client->alive, ALIVE, memory_order_release);
        } else {
            sched_yield();
        }
    }
    if (atomic_load(&client->closed)) {
        return fault(error, "closed", 0, false, "the client was closed");
    }
    return 0;
}

/* --- threads and jobs --- */

bool client_start_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, &attributes, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

static struct job *take_job(struct leafd *client)
{
    struct job *job = client->first_job;
    if (job != NULL) {
        client->first_job = job->next;
        if (client->first_job == NULL) {
            client->last_job = &client->first_job;
        }
    }
    return job;
}

static void *do_jobs(void *context)
{
    struct leafd *client = context;
    pthread_mutex_lock(&client->lock);
    for (;;) {
        struct job *job = take_job(client);
        if (job != NULL) {
            pthread_mutex_unlock(&client->lock);
            job->run(job->context);
            pthread_mutex_lock(&client->lock);
        } else if (atomic_load(&client->closed)) {
            break;
        } else {
            client->idle_threads++;
            pthread_cond_wait(&client->changed, &client->lock);
            client->idle_threads--;
        }
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

/* The thread that drops what is too old. */
static void *drop_old_ones(void *context)
{
    struct leafd *client = context;
    pthread_mutex_lock(&client->lock);
    while (!atomic_load(&client->closed)) {
        if (now_ns() < client->age_ns) {
            (void)condition_wait(&client->changed, &client->lock, client->age_ns);
            continue;
        }
        client->age_ns = UINT64_MAX;
        /* Sources are put before others, and never taken away. */
        struct source *source = client->sources;
        pthread_mutex_unlock(&client->lock);
        for (; source != NULL; source = source->next) {
            client_ages_at(client, source->kind->age(source, now_ns()));
        }
        pthread_mutex_lock(&client->lock);
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

void client_ages_at(struct leafd *client, uint64_t at_ns)
{
    pthread_mutex_lock(&client->lock);
    if (at_ns < client->age_ns) {
        client->age_ns = at_ns;
        pthread_cond_broadcast(&client->changed);
    }
    pthread_mutex_unlock(&client->lock);
}

bool client_start_job(struct leafd *client, struct job *job)
{
    pthread_mutex_lock(&client->lock);
    unsigned waiting = 0;
    for (struct job *other = client->first_job; other != NULL; other = other->next) {
        waiting++;
    }
    bool good = !atomic_load(&client->closed);
    if (good && client->idle_threads <= waiting &&
        client->thread_count < JOBS_AT_ONCE + (job->is_urgent ? URGENT_JOBS : 0) &&
        client_start_thread(&client->threads[client->thread_count], do_jobs, client)) {
        client->thread_count++;
    }
    if (good && !client->ageing) {
        client->ageing = client_start_thread(&client->ager, drop_old_ones, client);
    }
    good = good && client->thread_count > 0 && client->ageing;
    if (good && job->is_urgent) {
        job->next = client->first_job;
        client->last_job = job->next == NULL ? &job->next : client->last_job;
        client->first_job = job;
        pthread_cond_broadcast(&client->changed);
    } else if (good) {
        job->next = NULL;
        *client->last_job = job;
        client->last_job = &job->next;
        pthread_cond_broadcast(&client->changed);
    }
    pthread_mutex_unlock(&client->lock);
    return good;
}

void client_pause(struct leafd *client, uint64_t until_ns)
{
    pthread_mutex_lock(&client->lock);
    while (!atomic_load(&client->closed) &&
           condition_wait(&client->changed, &client->lock, until_ns)) {
    }
    pthread_mutex_unlock(&client->lock);
}

/* --- sources --- */

void source_nothing(void *source)
{
    (void)source;
}

uint64_t source_ageless(void *source, uint64_t now)
{
    (void)source;
    (void)now;
    return UINT64_MAX;
}

bool source_holds_nothing(void *source, struct leafd_gauge *gauge, char name[SOURCE_NAME_BYTES])
{
    (void)source;
    (void)gauge;
    (void)name;
    return false;
}

int source_enter(struct source *source, struct leafd_error *error)
{
    if (client_enter(source->client, error) != 0) {
        return -1;
    }
    if (atomic_load(&source->closed)) {
        return fault(error, "closed", 0, false, "this source of the client was closed");
    }
    return 0;
}

static void end_source(struct source *source)
{
    atomic_store(&source->closed, true);
    source->kind->stop(source);
}

void source_close(struct source *source)
{
    struct leafd *client = source->client;
    if (client_enter(client, NULL) != 0) {
        return; /* it is closed with its client */
    }
    if (client_in_hook()) {
        end_source(source);
        return;
    }
    pthread_mutex_lock(&client->closing);
    if (!atomic_load(&client->closed)) {
        end_source(source);
        source->kind->finish(source);
    }
    pthread_mutex_unlock(&client->closing);
}

/* The program asks for a source that it has closed, maybe in the hook. -1: the client is, too. */
static int open_again(struct source *source, struct leafd_error *error)
{
    struct leafd *client = source->client;
    if (client_in_hook()) {
        return fault(error, "closed", 0, true, "no source is opened again within the hook");
    }
    pthread_mutex_lock(&client->closing);
    bool closed = atomic_load(&client->closed);
    if (!closed && atomic_load(&source->closed)) {
        source->kind->finish(source);
        atomic_store(&source->closed, false);
    }
    pthread_mutex_unlock(&client->closing);
    return closed ? fault(error, "closed", 0, false, "the client was closed") : 0;
}

static struct source *find_source(struct leafd *client, const struct source_kind *kind,
                                  const char *name)
{
    struct source *source = client->sources;
    while (source != NULL && (source->kind != kind || strcmp(source->name, name) != 0)) {
        source = source->next;
    }
    return source;
}

static void *make_source(struct leafd *client, const struct source_kind *kind, const char *name,
                         size_t bytes, bool (*make)(void *), struct leafd_error *error)
{
    if (client->source_count == SOURCES_MAX) {
        (void)fault(error, "bad_setting", 0, false, "a client has %d sources at most", SOURCES_MAX);
        return NULL;
    }
    struct source *source = calloc(1, bytes);
    if (source != NULL) {
        source->client = client;
        source->kind = kind;
        memcpy(source->name, name, strlen(name) + 1);
        if (make(source)) {
            source->next = client->sources;
            client->sources = source;
            client->source_count++;
            return source;
        }
        free(source);
    }
    (void)fault(error, "no_memory", 0, true, "there is no memory for a source");
    return NULL;
}

void *client_source(struct leafd *client, const struct source_kind *kind, const char *name,
                    size_t bytes, bool (*make)(void *source), struct leafd_error *error)
{
    if (client_enter(client, error) != 0) {
        return NULL;
    }
    if (name != NULL && !text_is_name(name)) {
        (void)fault(error, "bad_setting", 0, false,
                    "\"%.200s\" must be 1 to 128 bytes of UTF-8 without control characters", name);
        return NULL;
    }
    name = name != NULL ? name : "";
    pthread_mutex_lock(&client->lock);
    struct source *source = find_source(client, kind, name);
    if (source == NULL && atomic_load(&client->closed)) {
        (void)fault(error, "closed", 0, false, "the client was closed");
    } else if (source == NULL) {
        source = make_source(client, kind, name, bytes, make, error);
    }
    pthread_mutex_unlock(&client->lock);
    if (source != NULL && atomic_load(&source->closed) && open_again(source, error) != 0) {
        return NULL;
    }
    return source;
}

/* --- the end --- */

/* Calls fail from now on, and nothing is held. It waits for nobody. */
static void stop_all(struct leafd *client)
{
    pthread_mutex_lock(&client->lock);
    if (!atomic_exchange(&client->closed, true)) {
        pthread_cond_broadcast(&client->changed);
        lines_wake(&client->lines);
    }
    struct source *source = client->sources;
    pthread_mutex_unlock(&client->lock);
    for (; source != NULL; source = source->next) {
        end_source(source);
    }
}

static void end_threads(struct leafd *client)
{
    if (client->ageing) {
        pthread_join(client->ager, NULL);
        client->ageing = false;
    }
    for (unsigned i = 0; i < client->thread_count; i++) {
        pthread_join(client->threads[i], NULL);
    }
    client->thread_count = 0;
}

void leafd_close(struct leafd *client)
{
    (void)client_enter(client, NULL);
    if (client_in_hook()) {
        stop_all(client);
        return;
    }
    pthread_mutex_lock(&client->closing);
    if (!client->finished) {
        stop_all(client); /* again, after a hook's: a source may have been opened meanwhile */
        end_threads(client);
        atomic_store(&client->lines.closing, false);
        for (struct source *source = client->sources; source != NULL; source = source->next) {
            source->kind->finish(source);
        }
        client->finished = true;
    }
    pthread_mutex_unlock(&client->closing);
}

void leafd_free(struct leafd *client)
{
    if (client == NULL) {
        return;
    }
    leafd_close(client);
    while (client->sources != NULL) {
        struct source *source = client->sources;
        client->sources = source->next;
        source->kind->free(source);
        free(source);
    }
    lines_destroy(&client->lines);
    fake_free(client->lines.fake);
    door_release(&client->ids);
    door_release(&client->admin);
    wipe_free((void *)client->alive, sizeof *client->alive);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    pthread_mutex_destroy(&client->closing);
    free(client);
}

void leafd_on_event(struct leafd *client, void (*hook)(void *user, const struct leafd_event *event),
                    void *user)
{
    client->hook = hook;
    client->hook_user = user;
}

const char *leafd_version(void)
{
    return LEAFD_VERSION;
}

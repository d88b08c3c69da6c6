/*
 * load.c - see config.h: the files that settings name, the rules between settings, and the sources
 * of settings, from the weakest to the strongest.
 *
 * The command line is read twice: first for commands (--help, --config FILE), last for settings, so
 * that flags override the file they name. getopt_long() is not used: it accepts abbreviated flags,
 * and a flag added by a later release would change their meaning.
 *
 * Thread: main.
 */
#include "src/node/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "http/auth/tokens.h"
#include "http/proto/text.h"
#include "src/base/address.h"
#include "src/base/assert.h"
#include "src/base/clock.h"
#include "src/base/container.h"
#include "src/base/prng.h"
#include "src/id/alloc/prefetch.h"
#include "src/id/alloc/segment.h"

void config_release(struct config *config)
{
    for (size_t i = 0; i < CONFIG_SETTINGS_MAX; i++) {
        free(config->origins[i].text);
    }
    explicit_bzero(config, sizeof *config);
}

size_t config_files(const struct config *config, struct config_file ret_files[CONFIG_FILES_MAX])
{
    const struct config_tls_files *const tls[] = {&config->tls.files, &config->peer_tls.files};
    size_t count = 0;

    ret_files[count++] = (struct config_file){"config file", config->file};
    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].type == &setting_path) {
            ret_files[count++] =
                (struct config_file){settings[row].name, config->origins[row].text};
        }
    }
    for (size_t i = 0; i < COUNT_OF(tls); i++) {
        ret_files[count++] = (struct config_file){"file of a tls-dir", tls[i]->certificate};
        ret_files[count++] = (struct config_file){"file of a tls-dir", tls[i]->key};
        ret_files[count++] = (struct config_file){"file of a tls-dir", tls[i]->ca};
    }
    return count;
}

/* --- files --- */

int config_file_read(const char *path, bool is_private, void *out, size_t room, size_t *ret_len,
                     struct config_error *ret_error)
{
    /* Without waiting: a FIFO may never have a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    mode_t not_private = S_IRWXG | S_IRWXO;
    struct stat st;
    ssize_t len;
    int rv = 0;

    if (fd < 0) {
        return config_fail(ret_error, "cannot open: %s", strerror(errno));
    }
    ASSERT(fstat(fd, &st) == 0);
    /* Root may let a group read its file: packages install files of a service this way, and
     * Kubernetes mounts them so. */
    not_private &= st.st_uid == 0 ? ~(mode_t)S_IRGRP : ~(mode_t)0;
    if (!S_ISREG(st.st_mode)) { /* a device may have no end */
        rv = config_fail(ret_error, "is not a regular file");
    } else if (is_private && (st.st_mode & not_private) != 0) {
        rv = config_fail(ret_error,
                         "has mode %04o, so others than its owner can use it: chmod 600 it, and "
                         "make a new secret if it may have been read",
                         (unsigned)st.st_mode & 07777);
    } else if ((st.st_mode & S_IWOTH) != 0) {
        rv = config_fail(ret_error, "has mode %04o, so anybody can change it: chmod o-w it",
                         (unsigned)st.st_mode & 07777);
    }
    *ret_len = 0;
    while (rv == 0 && (len = read(fd, (char *)out + *ret_len, room - *ret_len)) != 0) {
        if (len < 0 && errno != EINTR) {
            rv = config_fail(ret_error, "cannot read: %s", strerror(errno));
        }
        *ret_len += len > 0 ? (size_t)len : 0;
    }
    close(fd);
    return rv;
}

int config_tokens_read(const struct config *config, struct buf *ret_text,
                       struct config_error *ret_error)
{
    const char *path = config->auth.tokens_file;
    size_t len = 0;

    if (path[0] == '\0') {
        return 0;
    }
    buf_reserve(ret_text, LIMIT_TOKENS_FILE_BYTES + 2);
    if (config_file_read(path, true, ret_text->data, LIMIT_TOKENS_FILE_BYTES + 1, &len,
                         ret_error) != 0) {
        return config_fail_at(ret_error, "auth.tokens-file %s", path);
    }
    ret_text->len = len;
    ret_text->data[len] = '\0';
    return 0;
}

/* --- the cluster's secret --- */

#define HEX_CHARS (2 * NET_SECRET_BYTES)
#define BASE64_CHARS (SECRET_TEXT_BYTES - 1)
/* Of 32 random bytes about 30 differ; fewer than 20 never occur by chance. */
#define DISTINCT_MIN 20
#define NEW_SECRET "make one with leafd --new-secret"

/* Only the canonical form: one '=' at the end, unused bits 0. */
static bool from_base64(const char *text, uint8_t secret[NET_SECRET_BYTES])
{
    uint8_t bytes[NET_SECRET_BYTES + 1];
    unsigned char again[SECRET_TEXT_BYTES];
    bool same;

    if (EVP_DecodeBlock(bytes, (const unsigned char *)text, BASE64_CHARS) != sizeof bytes) {
        return false;
    }
    memcpy(secret, bytes, NET_SECRET_BYTES);
    (void)EVP_EncodeBlock(again, secret, NET_SECRET_BYTES);
    same = memcmp(again, text, BASE64_CHARS) == 0;
    OPENSSL_cleanse(bytes, sizeof bytes);
    OPENSSL_cleanse(again, sizeof again);
    return same;
}

/* False for NULs, a pattern, a sentence: no generator's output. */
static bool looks_random(const uint8_t secret[NET_SECRET_BYTES])
{
    bool seen[256] = {false};
    unsigned distinct = 0;
    unsigned printable = 0;

    for (size_t i = 0; i < NET_SECRET_BYTES; i++) {
        distinct += seen[secret[i]] ? 0 : 1;
        seen[secret[i]] = true;
        printable += secret[i] >= ' ' && secret[i] <= '~' ? 1 : 0;
    }
    return distinct >= DISTINCT_MIN && printable < NET_SECRET_BYTES;
}

static int secret_fail(char why[SECRET_WHY_BYTES], unsigned line, const char *what)
{
    (void)snprintf(why, SECRET_WHY_BYTES, "line %u: %s: " NEW_SECRET, line, what);
    return ERR_INVALID;
}

static int secret_parse_line(const char *text, size_t len, unsigned line, struct secret_list *list,
                             char why[SECRET_WHY_BYTES])
{
    uint8_t *secret;

    if (list->count == LIMIT_SECRETS) {
        return secret_fail(why, line, "there are more than two secrets");
    }
    secret = list->secrets[list->count];
    if (!(len == HEX_CHARS && text_hex(text, NET_SECRET_BYTES, secret)) &&
        !(len == BASE64_CHARS && from_base64(text, secret))) {
        return secret_fail(why, line, "a secret is 32 random bytes, as 64 hex digits or in base64");
    }
    if (!looks_random(secret)) {
        return secret_fail(why, line, "the secret is not random");
    }
    for (size_t i = 0; i < list->count; i++) {
        if (memcmp(list->secrets[i], secret, NET_SECRET_BYTES) == 0) {
            return secret_fail(why, line, "the secret is there twice");
        }
    }
    list->count++;
    return 0;
}

static bool is_secret_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

int secret_parse(const void *text, size_t len, struct secret_list *ret_list,
                 char ret_why[SECRET_WHY_BYTES])
{
    const char *at = text;
    const char *end = at + len;
    unsigned line = 0;
    int rv = 0;

    memset(ret_list, 0, sizeof *ret_list);
    while (rv == 0 && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop != NULL ? stop + 1 : end;

        line++;
        stop = stop != NULL ? stop : end;
        while (at < stop && is_secret_blank(*at)) {
            at++;
        }
        while (stop > at && is_secret_blank(stop[-1])) {
            stop--;
        }
        if (at < stop && *at != '#') {
            rv = secret_parse_line(at, (size_t)(stop - at), line, ret_list, ret_why);
        }
        at = next;
    }
    if (rv == 0 && ret_list->count == 0) {
        (void)snprintf(ret_why, SECRET_WHY_BYTES, "there is no secret in it: " NEW_SECRET);
        rv = ERR_INVALID;
    }
    return rv;
}

void secret_new(char ret_text[SECRET_TEXT_BYTES])
{
    uint64_t words[NET_SECRET_BYTES / sizeof(uint64_t)];
    uint8_t bytes[NET_SECRET_BYTES];

    do {
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            words[i] = prng_entropy();
        }
        memcpy(bytes, words, sizeof bytes);
    } while (!looks_random(bytes));
    ASSERT(EVP_EncodeBlock((unsigned char *)ret_text, bytes, sizeof bytes) == BASE64_CHARS);
    OPENSSL_cleanse(words, sizeof words);
    OPENSSL_cleanse(bytes, sizeof bytes);
}

/* --- the certificate of http.tls-dir --- */

/* One more byte, to detect a longer file. */
#define ROOM_BYTES (LIMIT_TLS_FILE_BYTES + 1)

int tls_files_load(const struct config *config, struct tls *tls, struct tls_context **ret_context,
                   struct config_error *ret_error)
{
    const struct config_tls_files *paths = &config->tls.files;
    struct tls_files files = {.client = config->tls.client};
    struct tls_error error = {""};
    struct tls_file *const read[] = {&files.certificate, &files.key, &files.client_ca};
    const char *const from[] = {paths->certificate, paths->key, paths->ca};
    size_t count = files.client != TLS_CLIENT_NONE ? 3 : 2;
    int rv = 0;

    ASSERT(tls_files_are_set(config));
    for (size_t i = 0; rv == 0 && i < count; i++) {
        void *data = MUST_HAVE(malloc(ROOM_BYTES));
        size_t len = 0;

        *read[i] = (struct tls_file){.name = from[i], .data = data};
        rv = config_file_read(from[i], read[i] == &files.key, data, ROOM_BYTES, &len, ret_error);
        read[i]->len = len;
        if (rv == 0 && len > LIMIT_TLS_FILE_BYTES) {
            rv = config_fail(ret_error, "larger than %d bytes", LIMIT_TLS_FILE_BYTES);
        }
        if (rv != 0) {
            (void)config_fail_at(ret_error, "http.tls-dir %s", from[i]);
        }
    }
    if (rv == 0 && tls_context_make(tls, &files, ret_context, &error) != 0) {
        rv = config_fail(ret_error, "http.tls-dir: %s", error.text);
    }
    for (size_t i = 0; i < COUNT_OF(read); i++) {
        if (read[i]->data != NULL) {
            explicit_bzero((void *)(uintptr_t)read[i]->data, read[i]->len);
            free((void *)(uintptr_t)read[i]->data);
        }
    }
    return rv;
}

/* --- rules between settings --- */

#define ADMIN_PORT_STEP 1000
#define LOST_ID_MAX 1000         /* LOST_ID_STEP: no two configured ids lead to the same id */
#define WRITTEN_MS 1767225600000 /* 2026-01-01: no correct clock is before it */

/* These follow another setting, and need no setting of their own. */
#define HEARTBEATS_PER_ELECTION 10 /* lost in a row before a node starts an election */
#define HEARTBEAT_MIN_MS 10        /* a third of the shortest election timeout */
#define CATCH_UP_ELECTIONS 60      /* a change that outlasts an election or two does not complete */
#define COVER_ELECTIONS 5          /* a tag's ids outlast an election, and a second one */
#define TIMEOUT_ELECTIONS 3        /* a waiting request outlasts an election of two rounds */
#define SNAPSHOTS_PER_TRAIL 4      /* for a node this late, entries are cheaper than a snapshot */
#define RENEWALS_PER_WINDOW 3      /* two may fail */
#define RENEW_MS 3000              /* Leaf's report interval */
#define SHUTDOWN_GRACE_MS 5000     /* more than an election; at most half of a supervisor's limit */
#define KEY_BYTES 200              /* of memory, some, that an idempotency key takes */
#define GRANT_REQUEST_MS 10000
#define GRANT_RETRY_MS 50
#define MARK_LEAD_MS 1000 /* a write a second; and the wait after a crash */

/* --- errors --- */

struct citation {
    char text[400];
};

/* "name = value (where)". Returns out's text. */
static const char *cite(const struct config *config, const char *name, struct citation *out)
{
    size_t row = setting_row(name);
    const char *value = config->origins[row].text;
    BUF_LOCAL(where);

    config_where(config, row, &where);
    (void)snprintf(out->text, sizeof out->text, "%s = %s (%s)", name, LOG_QUOTED(value, 128),
                   buf_text(&where));
    return out->text;
}

/* --- defaults that come from other settings --- */

/* Where nothing is set. */
static void set_default(struct config *config, const char *name, const char *value)
{
    size_t row = setting_row(name);
    struct config_error error;

    if (config->origins[row].text[0] == '\0') {
        ASSERT(config_set(config, row, value, CONFIG_FROM_RULE, 0, &error) == 0);
    }
}

static const struct net_peer *own_member(const struct config *config)
{
    const struct node_peers *members = &config->node.members;

    return net_peer_find(members->peers, members->count, config->node.node_id);
}

uint32_t rules_http_loops(unsigned processors)
{
    if (processors <= 2) {
        return 1;
    }
    return processors - 1 < LIMIT_HTTP_LOOPS ? processors - 1 : LIMIT_HTTP_LOOPS;
}

/* A wildcard is shown as its port at the host of another address of this node. If that does not fit
 * (the longest host with a longer port), the wildcard is shown. */
static void show_address(const char *listen, const char *other,
                         char ret_shown[LIMIT_ADDRESS_BYTES + 1])
{
    int len = -1;

    if (address_is_wildcard(listen) && other[0] != '\0') {
        len = snprintf(ret_shown, LIMIT_ADDRESS_BYTES + 1, "%.*s%s",
                       (int)(strrchr(other, ':') - other), other, strrchr(listen, ':'));
    }
    if (len < 0 || len > LIMIT_ADDRESS_BYTES) {
        (void)snprintf(ret_shown, LIMIT_ADDRESS_BYTES + 1, "%s", listen);
    }
}

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

static uint32_t at_least_ms(uint32_t value, uint32_t least)
{
    return value > least ? value : least;
}

/* Set values with a fixed ratio to a setting, and constants. Of HTTP: parts of the memory, and
 * times no longer than a connection's idle limit. */
static void set_followers(struct config *config)
{
    struct node_settings *node = &config->node;
    struct id_service_config *ids = &config->ids;
    struct http_settings *http = &config->http;
    struct driver_config *driver = &node->replica.driver;
    struct lease_config *lease = &ids->lease;

    driver->heartbeat_ms =
        at_least_ms(driver->election_ms / HEARTBEATS_PER_ELECTION, HEARTBEAT_MIN_MS);
    driver->applier.trailing_entries = driver->applier.snapshot_entries / SNAPSHOTS_PER_TRAIL;
    node->replica.catch_up_ms = driver->election_ms * CATCH_UP_ELECTIONS;
    ids->refill_percent = REFILL_DEFAULT_PERCENT;
    if (ids->allocator.cover_ms == 0) {
        ids->allocator.cover_ms =
            at_least_ms(driver->election_ms * COVER_ELECTIONS, REFILL_DEFAULT_COVER_MS);
    }
    ids->allocator.request_ms = GRANT_REQUEST_MS;
    ids->allocator.retry_ms = GRANT_RETRY_MS;
    /* As many as there is room for: age and rate bound them, and a clean stop returns unused
     * ids. */
    ids->prefetch.tags = PREFETCH_DEFAULT_TAGS;
    ids->prefetch.rate_per_s = PREFETCH_DEFAULT_RATE;
    lease->renew_ms = at_most(lease->window_ms / RENEWALS_PER_WINDOW, RENEW_MS);
    lease->mark_lead_ms = MARK_LEAD_MS;
    node->replica.clock = (struct clock_sync_config){.threshold_ms = lease->threshold_ms,
                                                     .renew_ms = lease->renew_ms};
    http->default_timeout_ms =
        at_most(at_least_ms(driver->election_ms * TIMEOUT_ELECTIONS, HTTP_DEFAULT_TIMEOUT_MS),
                LIMIT_TIMEOUT_MS);
    http->bodies_bytes = config->http_memory_bytes / 3;
    http->client_bodies_bytes = config->http_memory_bytes / 12;
    http->output_bytes = config->http_memory_bytes / 3;
    http->input_bytes = config->http_memory_bytes / 6; /* and the same amount again, see meter.h */
    http->head_ms = at_most(LIMIT_HTTP_HEAD_MS, http->idle_ms);
    http->body_ms = at_most(LIMIT_HTTP_BODY_MS, http->idle_ms);
    http->write_ms = at_most(LIMIT_HTTP_WRITE_MS, http->idle_ms);
    http->min_rate_bytes = HTTP_DEFAULT_MIN_RATE_BYTES;
    http->connections = LIMIT_HTTP_CONNECTIONS; /* open files may allow fewer, see listeners.h */
    http->resp_idle_ms = LIMIT_RESP_IDLE_MS;
}

/* No path is too long: the setting's bound leaves room for the names. */
static void set_tls_files(const char *dir, bool has_ca, struct config_tls_files *ret_files)
{
    *ret_files = (struct config_tls_files){"", "", ""};
    if (dir[0] == '\0') {
        return;
    }
    (void)snprintf(ret_files->certificate, sizeof ret_files->certificate,
                   "%s" CONFIG_TLS_CERTIFICATE, dir);
    (void)snprintf(ret_files->key, sizeof ret_files->key, "%s" CONFIG_TLS_KEY, dir);
    if (has_ca) {
        (void)snprintf(ret_files->ca, sizeof ret_files->ca, "%s" CONFIG_TLS_CA, dir);
    }
}

static int set_defaults(struct config *config, struct config_error *ret_error)
{
    const struct net_peer *member = own_member(config);
    struct net_key_source *keys = &config->node.keys;
    char shown[LIMIT_ADDRESS_BYTES + 1];
    const char *item;
    unsigned long port;

    (void)ret_error;
    set_followers(config);
    config->node.bootstrap_single = config->bootstrap == CONFIG_BOOTSTRAP_SINGLE;
    config->shutdown.grace_ms = SHUTDOWN_GRACE_MS;
    config->http.quotas = config->quota.clients;
    config->http.worker_percent = config->quota.workers_percent;
    config->ids.strict_keys = (uint32_t)(config->node.replica.memory_bytes / KEY_BYTES < LIMIT_KEYS
                                             ? config->node.replica.memory_bytes / KEY_BYTES
                                             : LIMIT_KEYS);
    config->ids.key_percent = config->quota.keys_percent;
    config->http.tags_bytes =
        config->quota.tags_percent < 100
            ? config->node.replica.memory_bytes / 100 * config->quota.tags_percent
            : UINT64_MAX;
    /* A member's address is the one that the members know. */
    set_default(config, "peer.advertise",
                member != NULL ? member->address : config->node.listen_address);
    set_default(config, "peer.listen", config->node.peer_address);
    /* HTTP at the host of the peer address, RESP at the host of HTTP. */
    show_address(config->http.listen_address, config->node.peer_address, shown);
    set_default(config, "http.advertise", shown);
    show_address(config->http.resp_address, config->node.http_address, config->resp_shown);
    config->http.resp_shown = config->resp_shown;
    set_tls_files(config->tls.dir, config->tls.client != TLS_CLIENT_NONE, &config->tls.files);
    set_tls_files(config->peer_tls.dir, true, &config->peer_tls.files);
    keys->node_id = config->node.node_id;
    keys->cert_file = config->peer_tls.files.certificate;
    keys->key_file = config->peer_tls.files.key;
    keys->ca_file = config->peer_tls.files.ca;
    config->http.resp_tls = config->tls.dir[0] != '\0';
    /* Beside the ids: on loopback, at a distance from their port, so that nodes on one machine do
     * not conflict. */
    port = strtoul(strrchr(config->http.listen_address, ':') + 1, NULL, 10);
    port = port + ADMIN_PORT_STEP > UINT16_MAX ? port - ADMIN_PORT_STEP : port + ADMIN_PORT_STEP;
    (void)snprintf(shown, sizeof shown, "127.0.0.1:%u", (unsigned)(uint16_t)port);
    set_default(config, "admin.listen", shown);
    config->admin.http = config->http;
    config->admin.http.listen_address = config->admin.listen;
    config->admin.http.loops = LIMIT_HTTP_ADMIN_LOOPS;
    config->admin.http.resp_address = "";
    config->admin.http.resp_tls = false;
    config->admin.http.connections = LIMIT_HTTP_ADMIN_CONNECTIONS;
    set_default(config, "auth.anonymous", config->auth.tokens_file[0] != '\0' ? "health" : "all");
    ASSERT(config_roles(config->auth.anonymous, &config->auth.anonymous_roles, &item) == 0);
    config->data.map_by_disk =
        config->origins[setting_row("data.map-bytes")].source == CONFIG_FROM_DEFAULT;
    if (config->http.loops == 0) {
        config->http.loops = rules_http_loops(uv_available_parallelism());
    }
    return 0;
}

/* --- rules --- */

static int check_required(struct config *config, struct config_error *ret_error)
{
    struct setting_text variable;
    struct setting_text flag;

    for (size_t row = 0; row < setting_count; row++) {
        if (config->origins[row].text == NULL &&
            (config->node.join.count == 0 || settings[row].type != &setting_members)) {
            return config_fail(
                ret_error, "%s is not set: give it in a config file, as %s or as %s",
                settings[row].name,
                setting_spell(settings[row].name, CONFIG_FROM_ENVIRONMENT, &variable),
                setting_spell(settings[row].name, CONFIG_FROM_FLAG, &flag));
        }
    }
    return 0;
}

/* Rules between two settings. */
static int check_pairs(struct config *config, struct config_error *ret_error)
{
    const struct node_settings *node = &config->node;
    const struct net_peer *member = own_member(config);
    bool joins = node->join.count > 0;
    bool has_resp = config->http.resp_address[0] != '\0';
    const struct {
        bool is_broken;
        const char *first;
        const char *how;
        const char *second;
    } rules[] = {
        {!joins && member == NULL, "node.id", "is not among", "cluster.members"},
        {!joins && member != NULL && strcmp(member->address, node->peer_address) != 0,
         "peer.advertise", "is not this node's address in", "cluster.members"},
        {node->bootstrap_single && !joins && node->members.count > 1, "cluster.bootstrap",
         "is for a node that is all of its cluster, and not with", "cluster.members"},
        {joins && address_is_wildcard(node->peer_address), "peer.advertise",
         "is an address that cannot be dialled; given", "join"},
        {strcmp(config->http.listen_address, node->listen_address) == 0, "http.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->admin.listen, node->listen_address) == 0, "admin.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->admin.listen, config->http.listen_address) == 0, "admin.listen",
         "(\"" CONFIG_ADMIN_SAME "\" joins the listeners) is the same address as", "http.listen"},
        {has_resp && strcmp(config->http.resp_address, node->listen_address) == 0, "resp.listen",
         "is the same address as", "peer.listen"},
        {strcmp(config->http.resp_address, config->http.listen_address) == 0, "resp.listen",
         "is the same address as", "http.listen"},
        {strcmp(config->http.resp_address, config->admin.listen) == 0, "resp.listen",
         "is the same address as", "admin.listen"},
        {node->replica.replace_lost && node->node_id > LOST_ID_MAX, "node.id",
         "is more than 1000, which it may not be with", "cluster.replace-lost"},
        {node->replica.replace_lost && config->peer_tls.dir[0] != '\0', "peer.tls-dir",
         "has a certificate of one node id for good, and so cannot be used with",
         "cluster.replace-lost"},
        {config->ids.lease.fixed > 0 && config->ids.lease.workers != 1, "snowflake.worker-id",
         "is one worker id, and so needs 1 of", "snowflake.workers"},
        {config->ids.lease.fixed > 1u << config->ids.lease.layout.worker_bits,
         "snowflake.worker-id", "is beyond what has room in", "snowflake.layout"},
        {config->tls.client != TLS_CLIENT_NONE && config->tls.dir[0] == '\0', "http.tls-client",
         "is for TLS: set", "http.tls-dir"},
    };
    struct citation first;
    struct citation second;

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].is_broken) {
            return config_fail(ret_error, "%s %s %s", cite(config, rules[i].first, &first),
                               rules[i].how, cite(config, rules[i].second, &second));
        }
    }
    /* The other nodes must be able to dial it, and it is permanent. */
    return node->peer_address[0] != '\0'
               ? 0
               : config_fail(ret_error, "peer.listen is not set: a node that joins a cluster needs "
                                        "an address where the others reach it");
}

int rules_layout(const struct config *config, uint64_t now_ms, struct config_error *ret_error)
{
    uint64_t compared_ms = now_ms > WRITTEN_MS ? now_ms : WRITTEN_MS;
    struct citation layout;
    const char *why;

    if (snowflake_layout_check(&config->ids.lease.layout, compared_ms, &why) == 0) {
        return 0;
    }
    return config_fail(ret_error, "%s: %s; this machine's clock says %" PRIu64 " ms",
                       cite(config, "snowflake.layout", &layout), why, now_ms);
}

static int check_layout(struct config *config, struct config_error *ret_error)
{
    return rules_layout(config, clock_wall_ms(clock_system()), ret_error);
}

static int check_secret(struct config *config, struct config_error *ret_error)
{
    struct citation listen;

    if (config->node.keys.secret_count > 0 || config->peer_tls.dir[0] != '\0' ||
        address_is_loopback(config->node.listen_address)) {
        return 0;
    }
    return config_fail(ret_error,
                       "%s can be reached from other machines, and cluster.secret-file is not "
                       "set: anybody could join the cluster and change its data. Make a secret "
                       "with: (umask 077; leafd --new-secret > leafd.secret), copy "
                       "the file to every node, and set cluster.secret-file to it",
                       cite(config, "peer.listen", &listen));
}

static int read_secret(struct config *config, struct config_error *ret_error)
{
    struct net_key_source *keys = &config->node.keys;
    char why[SECRET_WHY_BYTES];
    struct secret_list list;
    size_t len = 0;
    int rv;

    keys->cluster_id = config->node.cluster_id;
    if (config->secret_file[0] == '\0') {
        return 0;
    }
    rv = config_file_read(config->secret_file, true, config->secret, sizeof config->secret, &len,
                          ret_error);
    if (rv == 0 && len > LIMIT_SECRET_BYTES) {
        rv = config_fail(ret_error,
                         "there is more in it than %d bytes: make one with leafd "
                         "--new-secret",
                         LIMIT_SECRET_BYTES);
    }
    if (rv == 0 && secret_parse(config->secret, len, &list, why) != 0) {
        rv = config_fail(ret_error, "%s", why);
    }
    if (rv != 0) {
        return config_fail_at(ret_error, "cluster.secret-file %s", config->secret_file);
    }
    keys->secret_count = list.count;
    memcpy(keys->secrets, list.secrets, sizeof keys->secrets);
    explicit_bzero(&list, sizeof list);
    return 0;
}

/* Their content is checked when the node starts. */
static int check_peer_files(struct config *config, struct config_error *ret_error)
{
    const struct config_tls_files *files = &config->peer_tls.files;
    const char *const paths[] = {files->certificate, files->key, files->ca};
    uint8_t first;
    size_t len;

    for (size_t i = 0; config->peer_tls.dir[0] != '\0' && i < COUNT_OF(paths); i++) {
        if (config_file_read(paths[i], paths[i] == files->key, &first, 1, &len, ret_error) != 0) {
            return config_fail_at(ret_error, "peer.tls-dir %s", paths[i]);
        }
    }
    return 0;
}

/* The file is read again when the node starts: here it is only checked. */
static int check_tokens(struct config *config, struct config_error *ret_error)
{
    BUF_LOCAL(text);
    char why[TOKENS_WHY_BYTES];
    struct token_table *table = NULL;
    int rv = config_tokens_read(config, &text, ret_error);

    if (rv == 0 && config->auth.tokens_file[0] != '\0') {
        rv = tokens_parse((const char *)text.data, text.len, 0, &table, why);
        tokens_unref(table);
        if (rv != 0) {
            (void)config_fail(ret_error, "auth.tokens-file %s: %s", config->auth.tokens_file, why);
        }
    }
    return rv;
}

/* A listener that is reachable from outside needs tokens, or a setting that it needs none. */
static int check_open(struct config *config, struct config_error *ret_error)
{
    bool joined = strcmp(config->admin.listen, CONFIG_ADMIN_SAME) == 0;
    bool http_open = !address_is_loopback(config->http.listen_address);
    bool admin_open = !joined && !address_is_loopback(config->admin.listen);
    bool resp_open =
        config->http.resp_address[0] != '\0' && !address_is_loopback(config->http.resp_address);
    struct citation listen;
    const char *name = http_open ? "http.listen" : admin_open ? "admin.listen" : "resp.listen";
    bool all = http_open ? joined : admin_open;

    if (config->auth.tokens_file[0] != '\0' ||
        config->origins[setting_row("auth.anonymous")].source > CONFIG_FROM_RULE ||
        (!http_open && !admin_open && !resp_open)) {
        return 0;
    }
    return config_fail(
        ret_error,
        "%s can be reached from other machines, and auth.tokens-file is not set: "
        "any client could %s. Make a token with: leafd --new-token, put its line into "
        "a file of mode 0600, and set auth.tokens-file to it; or, where any client that "
        "reaches the port may do all that, set auth.anonymous to all, or to the "
        "roles that they have",
        cite(config, name, &listen), all ? "change tags and members" : "take ids");
}

/* Could the files be put in force? */
static int check_certificate(struct config *config, struct config_error *ret_error)
{
    struct tls_context *context = NULL;
    struct tls *tls;
    int rv;

    if (!tls_files_are_set(config)) {
        return 0;
    }
    tls = tls_new(clock_system());
    rv = tls_files_load(config, tls, &context, ret_error);
    tls_context_free(context);
    tls_free(tls);
    return rv;
}

/* --- the sources --- */

#define FILE_FLAG "--config"
#define FILE_VARIABLE CONFIG_ENVIRONMENT_PREFIX "CONFIG"
#define QUOTED_BYTES 128

static const struct {
    const char *flag;
    enum config_action action;
} commands[] = {
    {"--help", CONFIG_HELP},
    {"-h", CONFIG_HELP},
    {"--version", CONFIG_VERSION},
    {"--print-config", CONFIG_PRINT},
    {"--check-config", CONFIG_CHECK},
    {"--print-config-doc", CONFIG_PRINT_DOC},
    {"--print-config-example", CONFIG_PRINT_EXAMPLE},
    {"--new-secret", CONFIG_NEW_SECRET},
    {"--new-token", CONFIG_NEW_TOKEN},
};

static int set_file(struct config *config, const char *path, const char *from,
                    struct config_error *ret_error)
{
    config->file = path;
    return config_path_check(path, ret_error) == 0 ? 0 : config_fail_at(ret_error, "%s", from);
}

/* Set the setting that a source names; a flag's name may include its value. The error says where,
 * except for a file (its caller adds the line). */
static int assign(struct config *config, enum config_source source, unsigned line, const char *name,
                  size_t len, const char *value, struct config_error *ret_error)
{
    static const char *const unknown[] = {[CONFIG_FROM_FILE] = "unknown setting",
                                          [CONFIG_FROM_ENVIRONMENT] =
                                              "environment: unknown variable",
                                          [CONFIG_FROM_FLAG] = "unknown argument"};
    static const struct {
        const char *name;
        const char *how;
    } gone[] = {
        {"prefetch.tags", "after a restart a node fetches a segment of each tag that it served "
                          "within a day, of 10000 at most"},
        {"http.timeout-ms", "a request waits three times raft.election-ms, 3 to 10 s; where a "
                            "client needs another time, let it send timeout_ms"},
        {"strict.keys", "data.memory-bytes bounds the idempotency keys, some 200 bytes each"},
    };
    size_t row = setting_find(name, len, source);
    size_t bare = strcspn(name, "=");
    struct setting_text spelled;
    char quoted[QUOTED_BYTES];

    for (size_t i = 0; row == setting_count && i < COUNT_OF(gone); i++) {
        (void)setting_spell(gone[i].name, source, &spelled);
        if (strlen(spelled.text) == bare && memcmp(name, spelled.text, bare) == 0) {
            return config_fail(ret_error, "%s is no longer a setting: leave it out; %s",
                               spelled.text, gone[i].how);
        }
    }
    if (row == setting_count) {
        return config_fail(ret_error, "%s %s; --help lists the settings", unknown[source],
                           log_quote(name, len, quoted, sizeof quoted));
    }
    if (source == CONFIG_FROM_FILE && config->origins[row].source == source) {
        return config_fail(ret_error, "%s is set twice, first on line %u", settings[row].name,
                           config->origins[row].line);
    }
    if (config_set(config, row, value, source, line, ret_error) == 0) {
        return 0;
    }
    return source == CONFIG_FROM_FILE
               ? ERR_INVALID
               : config_fail_at(ret_error,
                                source == CONFIG_FROM_FLAG ? "flag %s" : "environment %s",
                                setting_spell(settings[row].name, source, &spelled));
}

/* --- the file --- */

#define CONFIG_BLANKS " \t\r"

/* Cut a line into texts. *ret_key is NULL if there is no setting on it. */
static int parse_line(char *line, char **ret_key, char **ret_value, struct config_error *ret_error)
{
    char *equals;
    char *value;

    *ret_key = NULL;
    line = text_strip(line, CONFIG_BLANKS);
    if (*line == '\0' || *line == '#') {
        return 0;
    }
    equals = strchr(line, '=');
    if (equals == NULL || equals == line) {
        return config_fail(ret_error, "must be: key = value");
    }
    *equals = '\0';
    *ret_key = text_strip(line, CONFIG_BLANKS);
    value = equals + 1 + strspn(equals + 1, " \t");
    *ret_value = value;
    if (*value == '"') { /* the text in quotes; only a comment may follow */
        char *end = strchr(value + 1, '"');

        if (end == NULL) {
            return config_fail(ret_error, "the quote is not closed");
        }
        *end = '\0';
        *ret_value = value + 1;
        value = end + 1;
        if (*value == '#') {
            return config_fail(ret_error, "there is more after the closing quote");
        }
    }
    for (char *hash = strchr(value, '#'); hash != NULL; hash = strchr(hash + 1, '#')) {
        if (hash == value || text_is_blank(hash[-1])) {
            *hash = '\0'; /* a comment */
            break;
        }
    }
    (void)text_strip(value, CONFIG_BLANKS);
    return value == *ret_value || *value == '\0'
               ? 0
               : config_fail(ret_error, "there is more after the closing quote");
}

static int load_file(struct config *config, struct config_error *ret_error)
{
    char text[LIMIT_CONFIG_FILE_BYTES + 2];
    char *rest = text;
    size_t len = 0;
    char *line;
    int rv;

    rv = config_file_read(config->file, false, text, sizeof text - 1, &len, ret_error);
    text[len] = '\0';
    if (rv == 0 && len > LIMIT_CONFIG_FILE_BYTES) {
        rv = config_fail(ret_error, "larger than %d bytes", LIMIT_CONFIG_FILE_BYTES);
    } else if (rv == 0 && strlen(text) < len) {
        rv = config_fail(ret_error, "has a NUL byte; is it a text file?");
    }
    if (rv != 0) {
        return config_fail_at(ret_error, "config file %s", config->file);
    }
    for (unsigned number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        char *value = NULL;
        char *key;

        if (parse_line(line, &key, &value, ret_error) != 0 ||
            (key != NULL &&
             assign(config, CONFIG_FROM_FILE, number, key, strlen(key), value, ret_error) != 0)) {
            return config_fail_at(ret_error, "%s:%u", config->file, number);
        }
    }
    return 0;
}

/* --- the environment --- */

/* Kubernetes gives every container variables named after its services: one called "leafd" makes
 * LEAFD_SERVICE_HOST, LEAFD_PORT=tcp://..., LEAFD_PORT_8080_TCP_ADDR and the like. Only these are
 * ignored: LEAFD_HTTP_PORT=8080 is a mistake. */
static bool is_service_link(const char *variable, size_t len)
{
    const char *port = memmem(variable, len, "_PORT", strlen("_PORT"));

    if (memmem(variable, len, "_SERVICE_HOST", strlen("_SERVICE_HOST")) != NULL ||
        memmem(variable, len, "_SERVICE_PORT", strlen("_SERVICE_PORT")) != NULL) {
        return true;
    }
    if (port == NULL) {
        return false;
    }
    port += strlen("_PORT");
    return *port == '=' ? strstr(port, "://") != NULL
                        : *port == '_' && isdigit((unsigned char)port[1]);
}

/* --- the command line --- */

/* The command line's command, its config file, and settings if `take`. The first command counts:
 * "--help --check-config" shows the help; of a flag given twice, the last one. A flag's value may
 * be the next argument; a boolean one may have none. */
static int load_arguments(struct config *config, bool take, enum config_action *ret_action,
                          struct config_error *ret_error)
{
    char *const *argv = config->given.argv;
    int rv = 0;

    *ret_action = CONFIG_RUN;
    for (int at = 1; rv == 0 && at < config->given.argc; at++) {
        const char *flag = argv[at];
        size_t len = strcspn(flag, "=");
        bool is_file = strlen(FILE_FLAG) == len && strncmp(flag, FILE_FLAG, len) == 0;
        const char *value = flag[len] == '=' ? flag + len + 1 : argv[at + 1];
        size_t row = setting_find(flag, len, CONFIG_FROM_FLAG);
        size_t i = 0;

        while (i < COUNT_OF(commands) && strcmp(flag, commands[i].flag) != 0) {
            i++;
        }
        if (i < COUNT_OF(commands)) {
            *ret_action = *ret_action == CONFIG_RUN ? commands[i].action : *ret_action;
            continue;
        }
        if (!is_file && row == setting_count) {
            return assign(config, CONFIG_FROM_FLAG, 0, flag, strlen(flag), NULL, ret_error);
        }
        if (flag[len] != '=' && (value == NULL || value[0] == '-') && row < setting_count &&
            settings[row].type == &setting_boolean) {
            value = "true";
        } else if (value == NULL) {
            return config_fail(ret_error, "%s: the value is missing", flag);
        } else {
            at += flag[len] != '=';
        }
        if (is_file) {
            rv = set_file(config, value, FILE_FLAG, ret_error);
        } else if (take) {
            rv = assign(config, CONFIG_FROM_FLAG, 0, flag, len, value, ret_error);
        }
    }
    return rv;
}

/* --- all of them --- */

static int load_all(struct config *config, struct config_error *ret_error)
{
    static int (*const rules[])(struct config *, struct config_error *) = {
        check_required, set_defaults, check_pairs,       read_secret,  check_peer_files,
        check_layout,   check_secret, check_certificate, check_tokens, check_open};
    static const char prefix[] = CONFIG_ENVIRONMENT_PREFIX;
    static const char variable[] = FILE_VARIABLE "=";
    char *const *env = config->given.env;
    enum config_action action;
    int rv = 0;

    for (size_t row = 0; row < setting_count; row++) {
        const char *fallback = settings[row].fallback;

        ASSERT(fallback == NULL ||
               config_set(config, row, fallback, CONFIG_FROM_DEFAULT, 0, ret_error) == 0);
    }
    /* The config file of the environment, unless a flag named one. */
    for (size_t i = 0; config->file[0] == '\0' && rv == 0 && env[i] != NULL; i++) {
        if (strncmp(env[i], variable, sizeof variable - 1) == 0) {
            rv = set_file(config, env[i] + sizeof variable - 1, FILE_VARIABLE, ret_error);
        }
    }
    if (rv == 0 && config->file[0] != '\0') {
        rv = load_file(config, ret_error);
    }
    for (; rv == 0 && *env != NULL; env++) {
        size_t len = strcspn(*env, "=");

        if ((*env)[len] == '=' && strncmp(*env, prefix, sizeof prefix - 1) == 0 &&
            strncmp(*env, variable, len + 1) != 0 && !is_service_link(*env, len)) {
            rv = assign(config, CONFIG_FROM_ENVIRONMENT, 0, *env, len, *env + len + 1, ret_error);
        }
    }
    if (rv == 0) {
        rv = load_arguments(config, true, &action, ret_error);
    }
    for (size_t i = 0; rv == 0 && i < COUNT_OF(rules); i++) {
        rv = rules[i](config, ret_error);
    }
    return rv;
}

int config_load(int argc, char *const argv[], char *const env[], struct config *ret_config,
                enum config_action *ret_action, struct config_error *ret_error)
{
    int rv;

    *ret_config = (struct config){.file = "", .given = {argc, argv, env}};
    rv = load_arguments(ret_config, false, ret_action, ret_error);
    if (rv == 0 && *ret_action < CONFIG_PRINT_DOC) {
        rv = load_all(ret_config, ret_error);
    }
    if (rv != 0) {
        config_release(ret_config);
    }
    return rv;
}

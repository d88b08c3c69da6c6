/*
 * report.c - see report.h.
 */
#include "src/app/report.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "src/base/address.h"
#include "src/base/buf.h"
#include "src/base/log.h"
#include "src/base/process.h"

struct quoted {
    char text[LIMIT_PATH_BYTES + 77]; /* a path, or a reason */
};

static const char *quote(const char *text, struct quoted *out)
{
    return log_quote(text, strlen(text), out->text, sizeof out->text);
}

void report_settings(const struct config *config)
{
    const struct node_settings *node = &config->node;
    const struct driver_config *driver = &node->replica.driver;
    BUF_LOCAL(members);
    struct quoted file;

    log_info("app", "starting", "version=%s commit=%s levels=%u-%u pid=%d config=%s", LEAFD_VERSION,
             commit_built[0] != '\0' ? commit_built : "unknown", level_own.min, level_own.max,
             (int)getpid(), quote(config->file, &file));
    for (size_t i = 0; i < node->members.count; i++) {
        buf_printf(&members, "%s%" PRIu64 "=%s", i > 0 ? "," : "", node->members.peers[i].id,
                   node->members.peers[i].address);
    }
    for (size_t i = 0; i < node->join.count; i++) {
        buf_printf(&members, "%sjoin=%s", members.len > 0 ? "," : "", node->join.peers[i].address);
    }
    log_info("app", "cluster",
             "cluster=%s members=%.*s peer_listen=%s secret=%s secrets=%zu "
             "peer_certificate=%s",
             node->cluster_id, (int)members.len, (const char *)members.data, node->listen_address,
             node->keys.secret_count > 0 ? "yes" : "no", node->keys.secret_count,
             node->keys.cert_file[0] != '\0' ? "yes" : "no");
    log_info("app", "timing",
             "heartbeat_ms=%" PRIu32 " election_ms=%" PRIu32 " cover_ms=%" PRIu32
             " refill_percent=%" PRIu32 " timeout_ms=%" PRIu32,
             driver->heartbeat_ms, driver->election_ms, node->replica.allocator.cover_ms,
             node->refill_percent, config->http.default_timeout_ms);
}

void report_warnings(const struct config *config)
{
    if (config->node.members.count > 0 && config->node.members.count % 2 == 0) {
        log_warn("app", "an even number of members survives no more failures than one fewer",
                 "members=%zu", config->node.members.count);
    }
}

void report_files(const struct config *config, uint64_t allowed, uint64_t kept,
                  const struct files_split *split)
{
    const struct http_settings *http = &config->http;

    log_info("app", "open files",
             "allowed=%" PRIu64 " kept=%" PRIu64 " http_loops=%" PRIu32 " http_connections=%" PRIu32
             " admin_connections=%" PRIu32,
             allowed, kept, http->loops, split->connections, split->admin_connections);
    if (split->connections < http->connections) {
        log_warn("app", "the system allows fewer open files than all connections would need",
                 "each_loop=%" PRIu32 " wanted=%" PRIu32, split->connections, http->connections);
    }
}

void report_too_few_files(uint64_t allowed, uint64_t least, int exit_code)
{
    log_error("app", "Too many open files: the system's limit for this process is too low to start",
              "allowed=%" PRIu64 " needed=%" PRIu64
              " exit_code=%d hint=\"raise it: LimitNOFILE of the unit, or ulimit -n\"",
              allowed, least, exit_code);
}

static const char *data_hint(int err)
{
    switch (err) {
    case ERR_LOCKED:
        return "stop that process first; two must never share a data directory";
    case ERR_CORRUPT:
    case ERR_TRUNCATED:
        return "nothing was changed; keep the directory for analysis, and replace the node by a "
               "new member with a new node.id";
    case ERR_WRONG_NODE:
        return "check data.dir, node.id and cluster.id; nothing was changed";
    case ERR_UNSAFE_DIRECTORY:
        return "nothing was changed";
    case ERR_BAD_VERSION:
        return "this data was written by another version of leafd; nothing was changed";
    case ERR_NEWER:
        return "start a leafd that speaks that level, see docs/versions.md; nothing was changed";
    case ERR_IMPLAUSIBLE:
        return "nothing was changed; replace the node by a new member with a new node.id, or, if "
               "most nodes say so, stop them all and recover from one with leafd recover: see "
               "docs/operations.md";
    case ERR_DISK_FULL:
        return "make room, or raise data.map-bytes";
    case ERR_NOMEM:
        return "the disk is not at fault: the system's limits of memory, address space or open "
               "files "
               "for this process are too low; data.map-bytes takes address space";
    default:
        return "check data.dir, its disk and its permissions";
    }
}

void report_data_refused(const struct config *config, int err, const char *text)
{
    struct quoted reason;
    struct quoted dir;

    log_error("app", "cannot use the data directory", "dir=%s err=%s reason=%s hint=\"%s\"",
              quote(config->data.dir, &dir), err_code(err), quote(text, &reason), data_hint(err));
}

void report_data_lost(const struct config *config, const char *text, int exit_code)
{
    struct quoted reason;
    struct quoted dir;

    log_error("app", "the data directory is gone",
              "dir=%s reason=%s exit_code=%d hint=\"put the newest data back, or replace the node "
              "by a new member with a new node.id\"",
              quote(config->data.dir, &dir), quote(text, &reason), exit_code);
}

void report_data_missing(const struct config *config)
{
    struct quoted dir;

    log_error("app", "there is no store in the data directory, and cluster.bootstrap is never",
              "dir=%s hint=\"is its disk mounted?\"", quote(config->data.dir, &dir));
}

static const char *node_hint(int err)
{
    switch (err) {
    case ERR_NEWER:
        return "start a leafd that speaks that level, see docs/versions.md";
    case ERR_EXISTS:
        return "another process listens there; is this node running already?";
    case ERR_REMOVED:
    case ERR_WRONG_NODE:
        return "give it an empty data directory and a node.id that was never used";
    case ERR_STALE:
        return "restore the newest copy, or give it an empty one and a node.id that was never used";
    case ERR_REFUSED:
        return "check node.id and peer.advertise against GET /api/cluster of a member";
    case ERR_OTHER_BIRTH:
        return "check join";
    case ERR_INVALID:
        return "check peer.listen, cluster.members and join";
    default:
        return "check peer.listen and cluster.members";
    }
}

void report_node_failed(const struct config *config, int err, const char *text)
{
    struct quoted reason;

    log_error("app", "cannot start the node", "err=%s peer_listen=%s reason=%s hint=\"%s\"",
              err_code(err), config->node.listen_address, quote(text, &reason), node_hint(err));
}

void report_http_failed(const char *setting, const char *address, const char *resp, int err,
                        int number)
{
    bool has_resp = resp[0] != '\0';

    log_error("app", "cannot start HTTP", "err=%s %s=%s%s%s reason=\"%s\" hint=\"%s\"",
              err_code(err), setting, address, has_resp ? " resp.listen=" : "", resp,
              address_reason(err, number), address_hint(err, number));
}

void report_tokens_failed(const char *why)
{
    char quoted[500];

    log_error("app", "the tokens cannot be used", "reason=%s",
              log_quote(why, strlen(why), quoted, sizeof quoted));
}

void report_certificate_refused(const char *text)
{
    struct quoted reason;

    log_error("app", "the certificate cannot be used",
              "reason=%s hint=\"--check-config reads the "
              "files, too\"",
              quote(text, &reason));
}

void report_replaced(const struct config *config, uint64_t id, int exit_code)
{
    log_warn("app", "the data of this node is lost: started again, it asks to be let in anew",
             "node=%" PRIu64 " next_node=%" PRIu64 " exit_code=%d", config->node.node_id, id,
             exit_code);
}

void report_not_replaced(const char *why)
{
    struct quoted reason;

    log_error("app", "the data of this node is lost, and it cannot come back as another node",
              "reason=%s", quote(why, &reason));
}

void report_removed(const struct config *config, int exit_code)
{
    log_error("app", "this node was removed from the cluster: stopping",
              "node=%" PRIu64 " exit_code=%d hint=\"its id never comes back; for a new member, "
              "give it an empty data directory and a new node.id, and join\"",
              config->node.node_id, exit_code);
}

/*
 * api.h - leafd over HTTP: the service that an HTTP server is given, and what it needs of the
 * cluster.
 *
 * Contract of the routes: docs/http-api.md. Ids are claimed from backend->table with atomics on the
 * loop's own thread; everything else goes by cluster_request to the raft loop and comes back by the
 * loop's port.
 *
 * The happy path: api_new(), http_server_start() with its services, and its waker is given to
 * the backend; at the end http_server_stop(), then api_free().
 *
 * Failure modes: none of its own. Requests that are still with the backend may be answered before,
 * during or after http_server_stop(). Their done() is safe at any time; once the loops have
 * stopped, it only frees them.
 *
 * Thread: the main thread.
 */
#ifndef LEAFD_HTTP_API_API_H
#define LEAFD_HTTP_API_API_H

#include <stddef.h>

#include "http/api/request.h"
#include "http/auth/tokens.h"
#include "http/proto/parser.h"
#include "http/server/service.h"
#include "src/id/backend/id_backend.h"

/* --- routes --- */

enum router_result {
    ROUTER_FOUND,
    ROUTER_NO_ROUTE,
    ROUTER_SLASH,     /* a name with an unencoded slash */
    ROUTER_NO_METHOD, /* the path exists, with other methods; *ret_route is one of its routes */
};

/* Find the route of a path. ret_name is the rest after route->path (encoded, borrowed from
 * path). */
enum router_result router_find(enum method method, const char *path, size_t path_len,
                               const struct route **ret_route, const char **ret_name,
                               size_t *ret_name_len);

/* The routes one after the other; NULL after the last. */
const struct route *router_route(size_t at);

#define ROUTER_ALLOW_BYTES 48

/* Make the services of two servers: api->ids.service, and api->admin.service, which serves the
 * operators' routes; the server of the first is made first. admin_address: of the second, for
 * messages; NULL: there is none, and the first serves all routes. auth: the access rules. resp: the
 * protocol of the listener at settings->resp_address; NULL: none. All are borrowed until
 * api_free(). api->waker is passed to the backend, and removed before http_server_stop(). */
struct api *api_new(const struct http_settings *settings, const struct http_build *build,
                    struct id_backend *backend, struct auth *auth, const struct talker *resp,
                    const char *admin_address);

/* The servers must have stopped, or never started. */
void api_free(struct api *api);

#endif

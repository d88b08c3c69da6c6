/*
 * fixture.h - a server on a port of its own with a fake backend, for tests of handlers.
 */
#ifndef LEAFD_HTTP_TESTS_FIXTURE_H
#define LEAFD_HTTP_TESTS_FIXTURE_H

#include "http/api/api.h"
#include "http/server/loop.h"
#include "http/tests/client.h"
#include "http/tests/fake_backend.h"

struct fixture {
    struct fake fake;
    struct http_settings settings;
    struct api *api;
    struct auth *auth; /* that prepare set, or NULL: all may do everything */
    bool two_doors;    /* that prepare set: the admin listener is a server of its own */
    struct http_server *server;
    struct http_server *admin; /* NULL: both listeners are one */
    struct client *client;
};

/* Limits as given (NULL: the defaults), one loop unless it says more; a client is connected. */
/* auth ends with the fixture. */
void fixture_start(struct fixture *f, const struct http_settings *limits);
void fixture_stop(struct fixture *f);

/* As fixture_start(); prepare is called once there is a backend and no server yet. */
void fixture_start_with(struct fixture *f, const struct http_settings *limits,
                        void (*prepare)(struct fixture *f));

/* Wait until so many requests of all loops wait for ids; asked on a connection of its own. */
void fixture_await_waiting(struct fixture *f, unsigned count);

/* The port of a server that has not begun to stop: of ACCEPT_HTTP, or of ACCEPT_RESP. */
uint16_t fixture_port(struct http_server *server, unsigned kind);

/* For cmocka: state is a struct fixture with the defaults. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* Another connection; of the RESP listener, which there is where the limits have resp_address. */
struct client *fixture_connect(struct fixture *f);
struct client *fixture_connect_resp(struct fixture *f);

#endif

/*
 * fixture.c - see fixture.h.
 */
#include "http/tests/fixture.h"

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/tests/unit/test.h"
#include "http/resp/api/resp.h"
#include "src/base/assert.h"

void fixture_start(struct fixture *f, const struct http_settings *limits)
{
    fixture_start_with(f, limits, NULL);
}

void fixture_start_with(struct fixture *f, const struct http_settings *limits,
                        void (*prepare)(struct fixture *f))
{
    static const struct http_build build = {.version = "9.8.7",
                                            .commit = "abc\"def",
                                            .libraries = "{\"libuv\":\"1.44.2\"}",
                                            .reloads = &fake_reloads};

    f->auth = NULL;
    f->two_doors = false;
    f->admin = NULL;
    f->settings = limits != NULL ? *limits : (struct http_settings){.loops = 1};
    fake_settings(&f->settings);
    fake_start(&f->fake);
    if (prepare != NULL) {
        prepare(f);
    }
    f->api = api_new(
        &f->settings, &build, &f->fake.backend, f->auth != NULL ? f->auth : fake_auth(),
        f->settings.resp_address[0] != '\0' ? &resp_talker : NULL, f->two_doors ? "admin:2" : NULL);
    assert_int_equal(http_server_start(&f->settings, &f->api->ids.service, &f->server), 0);
    if (f->two_doors) {
        assert_int_equal(http_server_start(&f->settings, &f->api->admin.service, &f->admin), 0);
    }
    fake_set_waker(&f->fake, &f->api->waker);
    f->client = fixture_connect(f);
}

void fixture_stop(struct fixture *f)
{
    if (f->client != NULL) {
        client_close(f->client);
    }
    fake_set_waker(&f->fake, NULL);
    if (f->server != NULL) {
        http_server_stop(f->server);
    }
    if (f->admin != NULL) {
        http_server_stop(f->admin);
    }
    api_free(f->api);
    auth_free(f->auth);
    fake_stop(&f->fake);
}

int fixture_setup(void **state)
{
    struct fixture *f = malloc(sizeof *f);

    ASSERT(f != NULL);
    fixture_start(f, NULL);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_stop(*state);
    free(*state);
    return 0;
}

uint16_t fixture_port(struct http_server *server, unsigned kind)
{
    int fd = http_server_loop(server, 0)->acceptors[kind].listen_fd;
    struct sockaddr_in address;
    socklen_t len = sizeof address;

    ASSERT(getsockname(fd, (struct sockaddr *)&address, &len) == 0);
    return ntohs(address.sin_port);
}

struct client *fixture_connect_resp(struct fixture *f)
{
    return client_open(fixture_port(f->server, ACCEPT_RESP));
}

struct client *fixture_connect(struct fixture *f)
{
    return client_open(fixture_port(f->server, ACCEPT_HTTP));
}

void fixture_await_waiting(struct fixture *f, unsigned count)
{
    struct client *client = fixture_connect(f);
    struct reply reply;
    char line[64];
    bool there = false;

    (void)snprintf(line, sizeof(line), "\nleafd_waiting_requests %u\n", count);
    while (!there) {
        client_call(client, "GET", "/metrics", NULL, &reply);
        assert_int_equal(reply.status, 200);
        there = strstr(reply.body, line) != NULL;
        reply_release(&reply);
        sched_yield();
    }
    client_close(client);
}

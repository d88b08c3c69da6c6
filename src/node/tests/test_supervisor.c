/*
 * test_supervisor.c - what a supervisor hears, over sockets as systemd has them; which addresses
 * are none.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/assert.h"
#include "src/node/signals.h"

static struct fixture {
    uv_loop_t loop;
    struct supervisor supervisor;
    struct listeners listeners;
    struct id_health health;
    struct id_backend backend;
    int fd;         /* the supervisor's end */
    char path[100]; /* of its address, "" if that is abstract */
    bool stuck;     /* a loop of HTTP */
} f;

/* In the place of listeners.c's: there is no HTTP here. */
bool listeners_take_turns(struct listeners *listeners)
{
    assert_ptr_equal(listeners, &f.listeners);
    return !f.stuck;
}

static void hear_at(const char *name, bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);

    memcpy(address.sun_path, name, len);
    if (abstract) {
        address.sun_path[0] = '\0';
    }
    f.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    len += offsetof(struct sockaddr_un, sun_path) + !abstract;
    assert_int_equal(bind(f.fd, (struct sockaddr *)&address, (socklen_t)len), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static int setup(void **state)
{
    (void)state;
    f = (struct fixture){.fd = -1};
    f.backend.health = &f.health;
    ASSERT(uv_loop_init(&f.loop) == 0);
    (void)snprintf(f.path, sizeof f.path, "/tmp/leafd-supervisor-%d", (int)getpid());
    (void)unlink(f.path);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    unsetenv("NOTIFY_SOCKET");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    supervisor_close(&f.supervisor);
    ASSERT(uv_run(&f.loop, UV_RUN_DEFAULT) == 0);
    ASSERT(uv_loop_close(&f.loop) == 0);
    if (f.fd >= 0) {
        close(f.fd);
    }
    (void)unlink(f.path);
    return 0;
}

static void begin(void)
{
    supervisor_open(&f.supervisor, &f.loop, &f.listeners);
}

/* The next message; "" when there is none. */
static const char *next(void)
{
    static char message[512];
    ssize_t len = recv(f.fd, message, sizeof message - 1, 0);

    assert_true(len >= 0 || errno == EAGAIN);
    message[len > 0 ? len : 0] = '\0';
    return message;
}

/* The next message that comes of looks at the node. */
static const char *wait_next(void)
{
    const char *message = next();

    while (message[0] == '\0') {
        (void)uv_run(&f.loop, UV_RUN_ONCE);
        message = next();
    }
    return message;
}

static void hear_a_node(void)
{
    unsigned long long us;

    begin();
    supervisor_set_status(&f.supervisor, "reading");
    supervisor_set_status(&f.supervisor, "reading"); /* once is enough */
    assert_string_equal(next(), "STATUS=reading");
    supervisor_ready(&f.supervisor, &f.backend);
    assert_string_equal(next(), "READY=1");
    assert_non_null(strstr(wait_next(), "STATUS=up; the cluster is not born yet"));
    supervisor_reload(&f.supervisor, true);
    assert_int_equal(sscanf(next(), "RELOADING=1\nMONOTONIC_USEC=%llu", &us), 1);
    assert_true(us > 0 && us <= uv_hrtime() / 1000);
    supervisor_reload(&f.supervisor, false);
    assert_string_equal(next(), "READY=1");
    supervisor_stopping(&f.supervisor);
    assert_string_equal(next(), "STOPPING=1");
    assert_string_equal(next(), "STATUS=stopping");
    assert_string_equal(next(), "");
}

static void test_a_path(void **state)
{
    (void)state;
    hear_at(f.path, false);
    hear_a_node();
}

static void test_an_abstract_address(void **state)
{
    char name[60];

    (void)state;
    (void)snprintf(name, sizeof name, "@leafd-supervisor-%d", (int)getpid());
    hear_at(name, true);
    hear_a_node();
}

static void expect_status(const char *status)
{
    char wanted[SUPERVISOR_STATUS_BYTES + 10];

    (void)snprintf(wanted, sizeof wanted, "STATUS=%s", status);
    assert_string_equal(wait_next(), wanted);
}

static void test_what_the_node_is_at(void **state)
{
    (void)state;
    hear_at(f.path, false);
    begin();
    supervisor_ready(&f.supervisor, &f.backend);
    assert_string_equal(next(), "READY=1");
    f.health.uid_high = 1;
    f.health.uid_low = 1;
    expect_status("up; catching up with the cluster");
    f.health.applied_once = true;
    expect_status("not ready: no leader is known and no ids are held");
    f.health.segments_held = 1;
    expect_status("serving the ids that it holds; no leader is known");
    f.health.leader_known = true;
    expect_status("serving");
    f.health.disk_low = true;
    expect_status("serving; the disk is nearly full");
}

/* It is alive as long as all loops are; a loop that is stuck is not talked over. */
static void test_a_stuck_loop_is_noticed(void **state)
{
    (void)state;
    hear_at(f.path, false);
    setenv("WATCHDOG_USEC", "8000", 1);
    begin();
    supervisor_ready(&f.supervisor, &f.backend);
    assert_string_equal(next(), "READY=1");
    assert_non_null(strstr(wait_next(), "STATUS="));
    assert_string_equal(wait_next(), "WATCHDOG=1");
    f.stuck = true;
    while (next()[0] != '\0') {
        continue;
    }
    for (unsigned i = 0; i < 5; i++) {
        (void)uv_run(&f.loop, UV_RUN_ONCE);
    }
    assert_string_equal(next(), "");
    f.stuck = false;
    assert_string_equal(wait_next(), "WATCHDOG=1");
}

/* Another process's, or no number: nobody waits for this one. */
static void test_no_watchdog(void **state)
{
    static const char *const others[][2] = {
        {"8000", "1"}, {"", ""}, {"-5", ""}, {"8s", ""}, {"99999999999999999999", ""}};

    (void)state;
    hear_at(f.path, false);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        setenv("WATCHDOG_USEC", others[i][0], 1);
        setenv("WATCHDOG_PID", others[i][1], 1);
        begin();
        assert_int_equal(f.supervisor.within_us, 0);
        supervisor_close(&f.supervisor);
        (void)uv_run(&f.loop, UV_RUN_DEFAULT);
    }
    begin();
}

static void test_addresses_that_are_none(void **state)
{
    static const char *const none[] = {
        "", "@", "/", "relative", "vsock:2:1234", "/nonexistent/socket"};
    char long_one[sizeof(struct sockaddr_un)];

    (void)state;
    memset(long_one, 'a', sizeof long_one - 1);
    long_one[0] = '/';
    long_one[sizeof((struct sockaddr_un *)0)->sun_path] = '\0';
    setenv("NOTIFY_SOCKET", long_one, 1);
    for (size_t i = 0; i <= sizeof none / sizeof none[0]; i++) {
        begin();
        assert_int_equal(f.supervisor.fd, -1);
        supervisor_set_status(&f.supervisor, "to nobody");
        supervisor_ready(&f.supervisor, &f.backend);
        assert_false(uv_is_active((uv_handle_t *)&f.supervisor.timer));
        supervisor_reload(&f.supervisor, true);
        supervisor_stopping(&f.supervisor);
        supervisor_close(&f.supervisor);
        (void)uv_run(&f.loop, UV_RUN_DEFAULT);
        if (i < sizeof none / sizeof none[0]) {
            setenv("NOTIFY_SOCKET", none[i], 1);
        }
    }
    unsetenv("NOTIFY_SOCKET");
    begin();
}

/* It reads nothing: what it does not take is lost, and the node goes on. */
static void test_a_supervisor_that_is_busy(void **state)
{
    (void)state;
    hear_at(f.path, false);
    begin();
    for (unsigned i = 0; i < 10000; i++) {
        supervisor_reload(&f.supervisor, false);
    }
    assert_string_equal(next(), "READY=1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_path),
        TEST(test_an_abstract_address),
        TEST(test_what_the_node_is_at),
        TEST(test_a_stuck_loop_is_noticed),
        TEST(test_no_watchdog),
        TEST(test_addresses_that_are_none),
        TEST(test_a_supervisor_that_is_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

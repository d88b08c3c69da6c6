/*
 * test_config_value.c - every type of setting at its bounds and beyond, and what it refuses.
 * Thread: one.
 */
#include "src/node/config/tests/config_fixture.h"

static uint64_t number_of(const struct config *config, const struct setting *setting)
{
    const char *field = (const char *)config + setting->offset;

    return setting->size == sizeof(uint32_t) ? *(const uint32_t *)field : *(const uint64_t *)field;
}

static void test_uint_bounds(void **state)
{
    struct config_fixture *f = *state;

    for (size_t row = 0; row < setting_count; row++) {
        const struct setting *setting = &settings[row];
        struct setting_text flag;
        char text[32];

        if (setting->type != &setting_number) {
            continue;
        }
        setting_spell(settings[row].name, CONFIG_FROM_FLAG, &flag);
        /* At the bounds the value itself is taken; rules between settings may still refuse it. */
        for (int high = 0; high <= 1; high++) {
            uint64_t bound = high ? setting->max : setting->min;

            (void)snprintf(text, sizeof text, "%llu", (unsigned long long)bound);
            assert_int_equal(config_set(&f->config, row, text, CONFIG_FROM_FLAG, 0, &f->error), 0);
            assert_int_equal(number_of(&f->config, setting), bound);
        }
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)setting->max + 1);
        expect_flag_error(f, flag.text, text, "is not valid: must be");
        if (setting->min > 0) {
            (void)snprintf(text, sizeof text, "%llu", (unsigned long long)setting->min - 1);
            expect_flag_error(f, flag.text, text, "is not valid: must be");
        }
    }
}

/* A row that writes into the field of another, or beyond its own, would be found by nobody else. */
static void test_fields_are_distinct(void **state)
{
    (void)state;
    for (size_t i = 0; i < setting_count; i++) {
        const struct setting *one = &settings[i];

        assert_true(one->offset + one->size <= offsetof(struct config, file));
        for (size_t k = 0; k < i; k++) {
            const struct setting *other = &settings[k];

            assert_true(one->offset + one->size <= other->offset ||
                        other->offset + other->size <= one->offset);
        }
    }
}

static void test_sandbox_words(void **state)
{
    struct config_fixture *f = *state;

    expect_flag_ok(f, "--sandbox", "auto");
    assert_int_equal(f->config.process.sandbox, CONFIG_SANDBOX_AUTO);
    expect_flag_ok(f, "--sandbox", "on");
    assert_int_equal(f->config.process.sandbox, CONFIG_SANDBOX_ON);
    expect_flag_ok(f, "--sandbox", "off");
    assert_int_equal(f->config.process.sandbox, CONFIG_SANDBOX_OFF);
    expect_flag_error(f, "--sandbox", "true",
                      "sandbox: \"true\" is not valid: must be auto, on, off or debug");
    expect_flag_error(f, "--sandbox", "", "is not valid: must be auto, on, off or debug");
}

static void test_uint_syntax(void **state)
{
    static const char *const bad[] = {"",
                                      " 5",
                                      "5 ",
                                      "+5",
                                      "-5",
                                      "0x5",
                                      "5.",
                                      "5k",
                                      "1e3",
                                      "５",
                                      "\n5",
                                      "18446744073709551617",
                                      "99999999999999999999"};
    struct config_fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_flag_error(f, "--http-loops", bad[i], "http.loops: \"");
    }
    expect_flag_ok(f, "--http-loops", "007");
    assert_int_equal(f->config.http.loops, 7);
}

static void test_bytes(void **state)
{
    static const char *const bad[] = {"",
                                      "MiB",
                                      "1048575",
                                      "1023KiB",
                                      "17TiB",
                                      "1GB",
                                      "1 GiB",
                                      "1gib",
                                      "1.5GiB",
                                      "-1GiB",
                                      "16385GiB",
                                      "1GiBx",
                                      "18446744073709551616",
                                      "17179869184TiB"};
    struct config_fixture *f = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_flag_error(f, "--data-map-bytes", bad[i], "must be 64MiB..16TiB");
    }
    expect_flag_error(f, "--data-map-bytes", "67108863", "must be 64MiB..16TiB");
    expect_flag_ok(f, "--data-map-bytes", "67108864");
    assert_int_equal(f->config.data.map_bytes, 64 << 20);
    expect_flag_ok(f, "--data-map-bytes", "65536KiB");
    assert_int_equal(f->config.data.map_bytes, 64 << 20);
    expect_flag_ok(f, "--data-map-bytes", "512MiB");
    assert_int_equal(f->config.data.map_bytes, 512ULL << 20);
    expect_flag_ok(f, "--data-map-bytes", "16TiB");
    assert_int_equal(f->config.data.map_bytes, 16ULL << 40);
    assert_false(f->config.data.map_by_disk);
}

static void test_bool_level(void **state)
{
    struct config_fixture *f = *state;

    expect_flag_ok(f, "--data-loose-mode", "false");
    assert_false(f->config.data.loose_mode);
    expect_flag_ok(f, "--data-loose-mode", "true");
    assert_true(f->config.data.loose_mode);
    expect_flag_error(f, "--data-loose-mode", "yes", "\"yes\" is not valid: must be true or false");
    expect_flag_error(f, "--data-loose-mode", "", "must be true or false");
    expect_flag_ok(f, "--cluster-bootstrap", "members");
    assert_int_equal(f->config.bootstrap, CONFIG_BOOTSTRAP_MEMBERS);
    assert_false(f->config.node.bootstrap_single);
    expect_flag_ok(f, "--cluster-bootstrap", "single");
    assert_int_equal(f->config.bootstrap, CONFIG_BOOTSTRAP_SINGLE);
    assert_true(f->config.node.bootstrap_single);
    expect_flag_ok(f, "--cluster-bootstrap", "never");
    assert_int_equal(f->config.bootstrap, CONFIG_BOOTSTRAP_NEVER);
    assert_false(f->config.node.bootstrap_single);
    expect_flag_error(f, "--cluster-bootstrap", "", "must be members, single or never");
    expect_flag_ok(f, "--log-level", "debug");
    assert_int_equal(f->config.log_level, LOG_LEVEL_DEBUG);
    expect_flag_ok(f, "--log-level", "error");
    assert_int_equal(f->config.log_level, LOG_LEVEL_ERROR);
    expect_flag_error(f, "--log-level", "INFO", "must be debug, info, warn or error");
}

static void test_texts(void **state)
{
    static const char *const paths[] = {"--data-dir", "--cluster-secret-file", "--peer-tls-dir",
                                        "--http-tls-dir", "--auth-tokens-file"};
    struct config_fixture *f = *state;
    char text[LIMIT_PATH_BYTES + 2];

    memset(text, 'a', sizeof text);
    text[LIMIT_CLUSTER_ID_BYTES] = '\0';
    expect_flag_ok(f, "--cluster-id", text);
    assert_string_equal(f->config.node.cluster_id, text);
    text[LIMIT_CLUSTER_ID_BYTES] = 'a';
    text[LIMIT_CLUSTER_ID_BYTES + 1] = '\0';
    expect_flag_error(f, "--cluster-id", text, "must be 1 to 64 of A-Z a-z 0-9 . _ -");
    expect_flag_ok(f, "--cluster-id", "Prod_eu-1.b");
    expect_flag_error(f, "--cluster-id", "", "cluster.id: \"\" is not valid");
    expect_flag_error(f, "--cluster-id", "a b", "cluster.id: \"a b\" is not valid");

    memset(text, 'a', sizeof text);
    text[LIMIT_PATH_BYTES] = '\0';
    expect_flag_ok(f, "--data-dir", text);
    assert_string_equal(f->config.data.dir, text);
    text[LIMIT_PATH_BYTES] = 'a';
    text[LIMIT_PATH_BYTES + 1] = '\0';
    expect_flag_error(f, "--data-dir", text, "must be a path of 1 to 1023 bytes");
    expect_flag_error(f, "--data-dir", "", "must be a path");
    expect_flag_error(f, "--data-dir", "a\nb", "\"a\\x0ab\" is not valid");
    expect_flag_error(f, "--data-dir", "a\"b", "must be a path");
    expect_flag_ok(f, "--data-dir", "/päth with blanks/#1");
    expect_flag_ok(f, "--data-dir", "./-");
    /* No command reads standard input or writes a stream. */
    expect_flag_error(f, "--config", "-", "--config: \"-\" does not mean standard input");
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        expect_flag_error(f, paths[i], "-", "\"-\" does not mean standard input");
    }
}

static void test_value_length(void **state)
{
    struct config_fixture *f = *state;
    char *text = malloc(LIMIT_CONFIG_VALUE_BYTES + 2);

    assert_non_null(text);
    memset(text, '0', LIMIT_CONFIG_VALUE_BYTES + 1);
    text[LIMIT_CONFIG_VALUE_BYTES] = '\0';
    text[LIMIT_CONFIG_VALUE_BYTES - 1] = '7';
    expect_flag_ok(f, "--http-loops", text);
    assert_int_equal(f->config.http.loops, 7);
    text[LIMIT_CONFIG_VALUE_BYTES] = '7';
    text[LIMIT_CONFIG_VALUE_BYTES + 1] = '\0';
    expect_flag_error(f, "--http-loops", text, "http.loops: the value is longer than 4096 bytes");
    /* A long value is cut in the error. */
    text[LIMIT_CONFIG_VALUE_BYTES] = '\0';
    text[0] = 'x';
    expect_flag_error(f, "--http-loops", text, "00000\" is not valid: must be 0..64");
    free(text);
}

static void test_addresses(void **state)
{
    static const char *const good[] = {"127.0.0.1:1", "0.0.0.0:65535", "[::1]:80",
                                       "[::]:80",     "localhost:80",  "node-1.example_x.org:80",
                                       "1.example:80"};
    static const char *const bad[] = {"8080",
                                      "127.0.0.1:",
                                      "127.0.0.1:0",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:http",
                                      "127.0.0.1:-1",
                                      ":8080",
                                      "::1:8080",
                                      "[::1]",
                                      "[::1:8080",
                                      "[127.0.0.1]:80",
                                      "[]:80",
                                      "[fe80::1%eth0]:80",
                                      "1.2.3:80",
                                      "1.2.3.256:80",
                                      "-a:80",
                                      ".a:80",
                                      "a b:80",
                                      "a/b:80"};
    struct config_fixture *f = *state;
    char text[LIMIT_ADDRESS_BYTES + 2];

    expect_flag_error(
        f, "--http-listen", "",
        "http.listen: \"\" is not valid: must be host:port or [IPv6]:port, port 1..65535");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        expect_flag_ok(f, "--http-listen", good[i]);
        assert_string_equal(f->config.http.listen_address, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[200];

        (void)snprintf(
            expected, sizeof expected,
            "http.listen: address \"%s\" must be host:port or [IPv6]:port, in 255 bytes: "
            "the host a name, an IPv4 address, or an IPv6 address in brackets, the port "
            "in 1..65535",
            bad[i]);
        expect_flag_error(f, "--http-listen", bad[i], expected);
    }
    memset(text, 'a', sizeof text);
    memcpy(text + LIMIT_ADDRESS_BYTES - 3, ":80", 4);
    expect_flag_ok(f, "--http-listen", text);
    memset(text, 'a', sizeof text);
    memcpy(text + LIMIT_ADDRESS_BYTES - 2, ":80", 4);
    expect_flag_error(f, "--http-listen", text, "is not valid: must be host:port");
}

static void test_members(void **state)
{
    static const struct {
        const char *text;
        const char *error;
    } bad[] = {
        {"", "cluster.members: \"\" is not id=host:port with an id in 1..65535"},
        {"127.0.0.1:7081", "is not id=host:port"},
        {"0=127.0.0.1:7081", "is not id=host:port"},
        {"65536=127.0.0.1:7081", "is not id=host:port"},
        {"=127.0.0.1:7081", "is not id=host:port"},
        {"1=127.0.0.1:7081,", "\"\" is not id=host:port"},
        {"1=127.0.0.1:7081,,2=127.0.0.1:7082", "\"\" is not id=host:port"},
        {"1=127.0.0.1:7081 2=127.0.0.1:7082", "must be host:port"},
        {"1=127.0.0.1", "address \"127.0.0.1\" must be host:port"},
        {"1=127.0.0.1:7081,1=127.0.0.1:7082", "cluster.members: id 1 is given twice"},
        {"1=127.0.0.1:7081,2=127.0.0.1:7081", "ids 1 and 2 have the same address 127.0.0.1:7081"},
        {"1=h:1,2=h:2,3=h:3,4=h:4,5=h:5,6=h:6,7=h:7,8=h:8", "more than 7 members"},
    };
    struct config_fixture *f = *state;

    expect_ok(f,
              ARGS("--node-id", "65535", "--cluster-members",
                   "1=127.0.0.1:7081, 65535=127.0.0.1:7082 ,3=[::1]:7083"),
              NO_ENV);
    assert_int_equal(f->config.node.members.count, 3);
    assert_int_equal(f->config.node.members.peers[1].id, 65535);
    assert_string_equal(f->config.node.members.peers[1].address, "127.0.0.1:7082");
    assert_string_equal(f->config.node.members.peers[2].address, "[::1]:7083");
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7082");
    expect_ok(f,
              ARGS("--node-id", "7", "--cluster-members",
                   "1=h:1,2=h:2,3=h:3,4=h:4,5=h:5,6=h:6,7=127.0.0.1:7"),
              NO_ENV);
    assert_int_equal(f->config.node.members.count, 7);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        expect_error(f, ARGS("--node-id", "1", "--cluster-members", (char *)(uintptr_t)bad[i].text),
                     NO_ENV, bad[i].error);
    }
    expect_error(f, ARGS("--node-id", "2", "--cluster-members", "1=127.0.0.1:7081"), NO_ENV,
                 "node.id = \"2\" (--node-id) is not among cluster.members = \"1=127.0.0.1:7081\" "
                 "(--cluster-members)");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_uint_bounds),   TEST(test_fields_are_distinct), TEST(test_uint_syntax),
        TEST(test_bytes),         TEST(test_bool_level),          TEST(test_texts),
        TEST(test_value_length),  TEST(test_addresses),           TEST(test_members),
        TEST(test_sandbox_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

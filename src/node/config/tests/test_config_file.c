/*
 * test_config_file.c - the syntax of the config file, the secret, what is printed, and the
 * documentation. Thread: one.
 */
#include "src/node/config/tests/config_fixture.h"

#include "src/base/assert.h"
#include "src/base/prng.h"

static void test_file_syntax(void **state)
{
    struct config_fixture *f = *state;

    file_make(f, "  # a comment\r\n"
                 "\t\r\n"
                 "node.id=1\r\n"
                 "  cluster.members  =  1=127.0.0.1:7081  # trailing\n"
                 "cluster.id = \"a-b\" # quoted\n"
                 "data.dir = \"/a #1 \"\n"
                 "http.advertise =\n"
                 "peer.listen = # nothing\n"
                 "log.level = warn");
    expect_ok(f, ARGS("--config", f->path), NO_ENV);
    assert_string_equal(f->config.node.members.peers[0].address, "127.0.0.1:7081");
    assert_string_equal(f->config.node.cluster_id, "a-b");
    assert_string_equal(f->config.data.dir, "/a #1 ");
    assert_string_equal(f->config.node.http_address, "127.0.0.1:8080");
    assert_string_equal(f->config.node.listen_address, "127.0.0.1:7081");
    assert_int_equal(f->config.log_level, LOG_LEVEL_WARN);
    assert_int_equal(origin(f, "log.level")->line, 9);

    /* '#' in the middle of a word is part of it. */
    file_make(f, "node.id = 1\ncluster.members = 1=127.0.0.1:7081\ndata.dir = /a#1\n");
    expect_ok(f, ARGS("--config", f->path), NO_ENV);
    assert_string_equal(f->config.data.dir, "/a#1");
    file_make(f, "");
    expect_ok(f, ARGS(NODE_1, "--config", f->path), NO_ENV);
}

static void test_file_errors(void **state)
{
    static const struct {
        const char *content;
        const char *error;
    } bad[] = {
        {"node.id = 1\nhttp.loops\n", ":2: must be: key = value"},
        {"= 1\n", ":1: must be: key = value"},
        {"[node]\n", ":1: must be: key = value"},
        {" = 1\n", ":1: must be: key = value"},
        {"http.loops = 1\n\nhttp.loops = 1\n", ":3: http.loops is set twice, first on line 1"},
        {"cluster.id = \"a\n", ":1: the quote is not closed"},
        {"cluster.id = \"a\"b\n", ":1: there is more after the closing quote"},
        {"cluster.id = \"a\" b\n", ":1: there is more after the closing quote"},
        {"cluster.id = \"a\"#b\n", ":1: there is more after the closing quote"},
        {"cluster.id = 'a'\n", ":1: cluster.id: \"'a'\" is not valid"},
        {"http.loops = 1 2\n", ":1: http.loops: \"1 2\" is not valid"},
        {"http.loops =\n", ":1: http.loops: \"\" is not valid"},
        {"LEAFD_NODE_ID = 1\n", ":1: unknown setting \"LEAFD_NODE_ID\""},
        {"node id = 1\n", ":1: unknown setting \"node id\""},
        {"node.id # = 1\n", ":1: unknown setting \"node.id #\""},
    };
    struct config_fixture *f = *state;
    char expected[256];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        file_make(f, bad[i].content);
        (void)snprintf(expected, sizeof expected, "%s%s", f->path, bad[i].error);
        expect_error(f, ARGS(NODE_1, "--config", f->path), NO_ENV, expected);
    }
    file_make_bytes(f, "node.id = 1\0\n", 13, 0600);
    expect_error(f, ARGS("--config", f->path), NO_ENV, "has a NUL byte; is it a text file?");
}

/* What has no end is not read to its end, and nobody waits for what may never come. */
static void test_files_that_are_none(void **state)
{
    struct config_fixture *f = *state;
    char fifo[96];

    (void)snprintf(fifo, sizeof fifo, "%s/fifo", f->dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    expect_error(f, ARGS("--config", fifo), NO_ENV, "/fifo: is not a regular file");
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", fifo), NO_ENV,
                 "/fifo: is not a regular file");
    assert_int_equal(unlink(fifo), 0);
    expect_error(f, ARGS("--config", f->dir), NO_ENV, "is not a regular file");

    expect_error(f, ARGS("--config", "/dev/zero"), NO_ENV,
                 "config file /dev/zero: is not a regular file");
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", "/dev/zero"), NO_ENV,
                 "cluster.secret-file /dev/zero: is not a regular file");
}

static void test_file_size(void **state)
{
    struct config_fixture *f = *state;
    char *text = malloc(LIMIT_CONFIG_FILE_BYTES + 1);

    assert_non_null(text);
    memset(text, '\n', LIMIT_CONFIG_FILE_BYTES + 1);
    memcpy(text + LIMIT_CONFIG_FILE_BYTES - 14, "http.loops = 9", 14);
    file_make_bytes(f, text, LIMIT_CONFIG_FILE_BYTES, 0600);
    expect_ok(f, ARGS(NODE_1, "--config", f->path), NO_ENV);
    assert_int_equal(f->config.http.loops, 9);
    file_make_bytes(f, text, LIMIT_CONFIG_FILE_BYTES + 1, 0600);
    expect_error(f, ARGS(NODE_1, "--config", f->path), NO_ENV, "larger than 65536 bytes");
    free(text);
}

/* A good file with a few bytes changed: it is taken, or refused with a place in the file; with
 * sanitizers, nothing is read or written beyond its bounds. */
static void test_file_garbage(void **state)
{
    static const char good[] = "# comment\r\nnode.id = 1\ncluster.members=1=127.0.0.1:7081 # one\n"
                               "data.dir = \"/a #b\"\ndata.map-bytes = 16GiB\nlog.level = info\n";
    static const char likely[] = "#=\"\n\r\t ,:[]19.\0\xff";
    struct config_fixture *f = *state;
    struct prng prng;
    unsigned taken = 0;
    unsigned refused = 0;

    prng_seed(&prng, 20261120);
    for (int i = 0; i < 3000; i++) {
        char text[sizeof good];

        memcpy(text, good, sizeof good);
        for (uint64_t changes = 1 + prng_below(&prng, 3); changes > 0; changes--) {
            text[prng_below(&prng, sizeof good - 1)] = likely[prng_below(&prng, sizeof likely)];
        }
        file_make_bytes(f, text, sizeof good - 1, 0600);
        if (load(f, ARGS("--config", f->path), NO_ENV) == 0) {
            taken++;
        } else {
            assert_true(strlen(f->error.text) > 0);
            refused++;
        }
    }
    assert_true(taken > 100);
    assert_true(refused > 100);
}

static void good_secret(struct config_fixture *f, const char *text, const char *tail, size_t count)
{
    char content[LIMIT_SECRET_BYTES];

    (void)snprintf(content, sizeof content, "%s%s", text, tail);
    file_make_bytes(f, content, strlen(content), 0600);
    expect_ok(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV);
    assert_int_equal(f->config.node.keys.secret_count, count);
}

static void bad_secret(struct config_fixture *f, const void *text, size_t len, const char *error)
{
    file_make_bytes(f, text, len, 0600);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, error);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, "leafd --new-secret");
}

static void test_secret_file(void **state)
{
    static const char nuls[32];
    struct config_fixture *f = *state;
    char large[LIMIT_SECRET_BYTES + 2];

    good_secret(f, SOME_SECRET, "", 1);
    good_secret(f, SOME_SECRET, "\n", 1);
    good_secret(f, SOME_SECRET, "\r\n", 1);
    good_secret(f, HEX_SECRET, "\n", 1);
    good_secret(f, SOME_SECRET "\n" HEX_SECRET, "\n", 2);
    bad_secret(f, nuls, sizeof nuls, "a secret is 32 random bytes, as 64 hex digits or in base64");
    bad_secret(f, "", 0, "there is no secret in it");
    bad_secret(f, "0123456789abcdef\n", 17, "line 1: a secret is 32 random bytes");
    memset(large, '\n', sizeof large);
    bad_secret(f, large, LIMIT_SECRET_BYTES, "there is no secret in it");
    bad_secret(f, large, LIMIT_SECRET_BYTES + 1, "there is more in it than 1024 bytes");
    bad_secret(f, large, LIMIT_SECRET_BYTES + 2, "there is more in it than 1024 bytes");

    file_make_bytes(f, SOME_SECRET, strlen(SOME_SECRET), 0400);
    expect_ok(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV);
    file_make_bytes(f, SOME_SECRET, strlen(SOME_SECRET), 0644);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV,
                 "has mode 0644, so others than its owner can use it: chmod 600 it");
    file_make_bytes(f, SOME_SECRET, strlen(SOME_SECRET), 0660);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, "has mode 0660");
    file_make_bytes(f, SOME_SECRET, strlen(SOME_SECRET), 0602);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, "has mode 0602");
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->dir), NO_ENV, "is not a regular file");
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", "/nonexistent"), NO_ENV,
                 "cluster.secret-file /nonexistent: cannot open: No such file or directory");
}

/* Root may let a group read it, and nobody else may. */
static void test_a_group_that_reads(void **state)
{
    struct config_fixture *f = *state;

    file_make_bytes(f, SOME_SECRET, strlen(SOME_SECRET), 0640);
    if (geteuid() != 0) { /* the file is this user's */
        expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, "has mode 0640");
        return;
    }
    expect_ok(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV);
    assert_int_equal(chown(f->path, 12345, 12345), 0);
    expect_error(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV, "has mode 0640");
    assert_int_equal(chmod(f->path, 0600), 0);
    expect_ok(f, ARGS(NODE_1, "--cluster-secret-file", f->path), NO_ENV);
}

static void put_file(const struct config_fixture *f, const char *name, mode_t mode)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", f->dir, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* All three have to be there, and the key is for its owner alone. */
static void test_certificate_files(void **state)
{
    static const char *const names[] = {"tls.crt", "tls.key", "ca.crt"};
    struct config_fixture *f = *state;
    char path[128];
    char dir[LIMIT_PATH_BYTES];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "peer.tls-dir %s/%s: cannot open: No such file", f->dir,
                       names[i]);
        expect_error(f, ARGS(NODE_1, "--peer-tls-dir", f->dir), NO_ENV, path);
        put_file(f, names[i], i == 1 ? 0644 : 0640);
        if (i == 1) {
            expect_error(f, ARGS(NODE_1, "--peer-tls-dir", f->dir), NO_ENV, "has mode 0644");
            put_file(f, names[i], 0600);
        }
    }
    expect_ok(f, ARGS(NODE_1, "--peer-tls-dir", f->dir, "--peer-listen", "0.0.0.0:7081"), NO_ENV);
    (void)snprintf(path, sizeof path, "%s/ca.crt", f->dir);
    assert_string_equal(f->config.node.keys.ca_file, path);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        assert_int_equal(unlink(path), 0);
    }

    memset(dir, 'a', sizeof dir);
    dir[LIMIT_PATH_BYTES - 8] = '\0';
    expect_error(f, ARGS(NODE_1, "--http-tls-dir", dir), NO_ENV, "http.tls-dir aaaaaaaa");
    dir[LIMIT_PATH_BYTES - 8] = 'a';
    dir[LIMIT_PATH_BYTES - 7] = '\0';
    expect_error(f, ARGS(NODE_1, "--http-tls-dir", dir), NO_ENV, "must be a path of 0 to 1015");
    expect_error(f, ARGS(NODE_1, "--http-tls-client", "optional"), NO_ENV,
                 "http.tls-client = \"optional\" (--http-tls-client) is for TLS: set http.tls-dir");
}

/* What --print-config prints can be read again, and gives the same; the secret is not in it. */
static void test_print_round_trip(void **state)
{
    struct config_fixture *f = *state;
    struct buf first = BUF_INIT;
    struct buf second = BUF_INIT;
    char secret_path[96];
    FILE *file;

    (void)snprintf(secret_path, sizeof secret_path, "%s/secret", f->dir);
    file = fopen(secret_path, "w");
    assert_non_null(file);
    assert_true(fputs(SOME_SECRET "\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(secret_path, 0600), 0);

    expect_ok(f, ARGS(NODE_1, "--data-dir", " /a #1", "--cluster-secret-file", secret_path),
              ENV("LEAFD_HTTP_LOOPS=3"));
    config_print(&f->config, &first);
    buf_put_u8(&first, '\0');
    assert_null(strstr((char *)first.data, SOME_SECRET));
    assert_non_null(
        strstr((char *)first.data, "# --cluster-secret-file, holds 1 secret, not shown"));
    assert_non_null(strstr((char *)first.data, "data.dir = \" /a #1\" "));
    assert_non_null(strstr((char *)first.data, "# LEAFD_HTTP_LOOPS\n"));

    file_make(f, (char *)first.data);
    expect_ok(f, ARGS("--config", f->path), NO_ENV);
    assert_string_equal(f->config.data.dir, " /a #1");
    assert_int_equal(f->config.http.loops, 3);
    assert_int_equal(f->config.node.keys.secret_count, 1);
    for (size_t i = 0; i < setting_count; i++) {
        assert_int_equal(f->config.origins[i].source, CONFIG_FROM_FILE);
    }
    config_print(&f->config, &second);
    buf_put_u8(&second, '\0');
    assert_non_null(strstr((char *)second.data, "http.loops = 3 "));
    buf_free(&first);
    buf_free(&second);
    assert_int_equal(unlink(secret_path), 0);
}

static void test_help_names_all(void **state)
{
    struct buf help = BUF_INIT;
    struct setting_text text;

    (void)state;
    config_print_help(&help);
    buf_put_u8(&help, '\0');
    for (size_t row = 0; row < setting_count; row++) {
        for (enum config_source as = CONFIG_FROM_FILE; as <= CONFIG_FROM_FLAG; as++) {
            assert_non_null(
                strstr((char *)help.data, setting_spell(settings[row].name, as, &text)));
        }
    }
    for (char *line = (char *)help.data, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        assert_true(end - line <= 100);
    }
    /* Nothing of Markdown; of a link its words. */
    assert_null(strchr((char *)help.data, '`'));
    assert_null(strstr((char *)help.data, "]("));
    assert_non_null(strstr((char *)help.data, "by Redis's protocol (redis.md), with TLS"));
    buf_free(&help);
}

/* The table in the documentation is the one that the program prints. */
static void test_documentation(void **state)
{
    struct buf table = BUF_INIT;
    static char page[256 << 10];
    FILE *file = fopen("docs/configuration.md", "r");
    char *begin;
    size_t len;

    (void)state;
    assert_non_null(file); /* tests run in the project's root */
    len = fread(page, 1, sizeof page - 1, file);
    assert_int_equal(fclose(file), 0);
    page[len] = '\0';
    config_print_doc(&table);
    begin = strstr(page, "<!-- settings -->\n");
    assert_non_null(begin);
    begin += strlen("<!-- settings -->\n");
    if (strncmp(begin, (char *)table.data, table.len) != 0 ||
        strncmp(begin + table.len, "<!-- end of settings -->\n", 25) != 0) {
        fail_msg("the table in docs/configuration.md is not what leafd --print-config-doc prints");
    }
    buf_free(&table);
}

/* What --print-config-example prints is a config file, and one that says the same when its settings
 * are no comments; so each of its lines is what the setting is called and may be. */
static void test_printed_example(void **state)
{
    struct config_fixture *f = *state;
    struct buf example = BUF_INIT;
    struct buf bare = BUF_INIT;
    char *line_end;
    char *line;
    size_t count = 0;

    config_print_example(&example);
    file_make_bytes(f, (const char *)example.data, example.len, 0600);
    expect_ok(f, ARGS("--config", f->path, NODE_1), NO_ENV);
    buf_put_u8(&example, '\0');
    assert_null(strstr((char *)example.data, "]("));
    for (line = strtok_r((char *)example.data, "\n", &line_end); line != NULL;
         line = strtok_r(NULL, "\n", &line_end)) {
        size_t len = strlen(line);

        assert_in_range(len, 1, 100);
        assert_int_equal(line[0], '#');
        if (len > 1 && line[1] != ' ') {
            count++;
            buf_printf(&bare, "%s%s\n", line[len - 1] == '=' ? "#" : "", line + 1);
        }
    }
    assert_int_equal(count, setting_count);
    config_release(&f->config);
    file_make_bytes(f, (const char *)bare.data, bare.len, 0600);
    expect_ok(f, ARGS("--config", f->path, NODE_1), NO_ENV);
    buf_free(&example);
    buf_free(&bare);
}

/* The example in the documentation is a valid config file. */
static void test_documentation_example(void **state)
{
    struct config_fixture *f = *state;
    static char page[256 << 10];
    FILE *file = fopen("docs/configuration.md", "r");
    char *begin;
    char *end;
    size_t len;

    assert_non_null(file);
    len = fread(page, 1, sizeof page - 1, file);
    assert_int_equal(fclose(file), 0);
    page[len] = '\0';
    begin = strstr(page, "```ini\n");
    assert_non_null(begin);
    begin += strlen("```ini\n");
    end = strstr(begin, "```\n");
    assert_non_null(end);
    file_make_bytes(f, begin, (size_t)(end - begin), 0600);
    /* Its secret is not here, so this machine alone. */
    expect_ok(
        f,
        ARGS("--config", f->path, "--cluster-secret-file", "", "--peer-listen", "127.0.0.1:7081"),
        NO_ENV);
    assert_int_equal(f->config.node.members.count, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, config_setup, config_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_files_that_are_none),   TEST(test_file_syntax),
        TEST(test_file_errors),           TEST(test_file_size),
        TEST(test_file_garbage),          TEST(test_secret_file),
        TEST(test_certificate_files),     TEST(test_print_round_trip),
        TEST(test_help_names_all),        TEST(test_documentation),
        TEST(test_documentation_example), TEST(test_printed_example),
        TEST(test_a_group_that_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

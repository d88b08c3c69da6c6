/*
 * config_fixture.c - see config_fixture.h. Thread: one.
 */
#include "src/node/config/tests/config_fixture.h"

int config_setup(void **state)
{
    struct config_fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/leafd-config-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof f->path, "%s/file", f->dir);
    *state = f;
    return 0;
}

int config_teardown(void **state)
{
    struct config_fixture *f = *state;

    config_release(&f->config);
    (void)unlink(f->path);
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

void file_make_bytes(struct config_fixture *f, const void *data, size_t len, mode_t mode)
{
    FILE *file = fopen(f->path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(f->path, mode), 0);
}

void file_make(struct config_fixture *f, const char *text)
{
    file_make_bytes(f, text, strlen(text), 0600);
}

int load(struct config_fixture *f, char *args[], char *env[])
{
    int count = 0;

    while (args[count] != NULL) {
        count++;
    }
    config_release(&f->config);
    f->error.text[0] = '\0';
    return config_load(count, args, env, &f->config, &f->action, &f->error);
}

void expect_ok(struct config_fixture *f, char *args[], char *env[])
{
    int rv = load(f, args, env);

    if (rv != 0) {
        fail_msg("refused: %s", f->error.text);
    }
}

void expect_error(struct config_fixture *f, char *args[], char *env[], const char *text)
{
    assert_int_equal(load(f, args, env), ERR_INVALID);
    if (strstr(f->error.text, text) == NULL) {
        fail_msg("the error is:\n  %s\nand should have in it:\n  %s", f->error.text, text);
    }
    /* Nothing is left to release. */
    assert_null(f->config.origins[0].text);
}

void expect_flag_ok(struct config_fixture *f, const char *flag, const char *value)
{
    expect_ok(
        f, ARGS(NODE_1, "--auth-anonymous=all", (char *)(uintptr_t)flag, (char *)(uintptr_t)value),
        NO_ENV);
}

void expect_flag_error(struct config_fixture *f, const char *flag, const char *value,
                       const char *text)
{
    expect_error(f, ARGS(NODE_1, (char *)(uintptr_t)flag, (char *)(uintptr_t)value), NO_ENV, text);
}

const struct config_origin *origin(const struct config_fixture *f, const char *name)
{
    return &f->config.origins[setting_row(name)];
}

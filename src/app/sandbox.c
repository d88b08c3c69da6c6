/*
 * sandbox.c - see sandbox.h. Thread: main.
 */
#include "src/app/sandbox.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "src/app/config/table.h"
#include "src/app/sandbox_calls.h"
#include "src/app/sandbox_paths.h"
#include "src/base/assert.h"

/* Of the system: its settings, libraries (the resolver loads some when it is first asked), and what
 * is to be known of the machine and of this process. */
static const char *const of_system[] = {
    "/etc", "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo",
    /* what the resolver's settings are links to */
    "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager",
    /* the machine, and this process */
    "/sys/devices/system/cpu", "/sys/fs/cgroup", "/proc/self", "/proc/meminfo", "/proc/sys/net",
    "/dev/null", "/dev/urandom"};

#define SYSTEM_COUNT (sizeof of_system / sizeof of_system[0])
/* The directory of a file, and the one that its links lead to: of each setting, of certificates, of
 * the config file and of /etc/resolv.conf. And the data directory. */
#define PATHS_MAX (SYSTEM_COUNT + 2 * (CONFIG_SETTINGS_MAX + CONFIG_TLS_PATHS + 2) + 1)

struct paths {
    struct sandbox_path list[PATHS_MAX];
    char *owned[PATHS_MAX]; /* NULL: static memory */
    size_t count;
};

static void put(struct paths *paths, const char *path, char *owned, bool writable)
{
    ASSERT(paths->count < PATHS_MAX);
    paths->owned[paths->count] = owned;
    paths->list[paths->count++] = (struct sandbox_path){path, writable};
}

/* The directory in which a file can be replaced; of one in the root the file alone. path: owned. */
static void put_directory_of(struct paths *paths, char *path)
{
    const char *directory;
    char *copy;

    if (path == NULL) {
        return;
    }
    copy = MUST_HAVE(strdup(path));
    directory = dirname(copy);
    if (strcmp(directory, "/") == 0) {
        free(copy);
        put(paths, path, path, false);
    } else {
        free(path);
        put(paths, directory, copy, false);
    }
}

static void put_file(struct paths *paths, const char *path)
{
    if (path != NULL && path[0] != '\0') {
        char *copy = MUST_HAVE(strdup(path));

        put_directory_of(paths, copy);
        put_directory_of(paths, realpath(path, NULL)); /* NULL: not there */
    }
}

static void collect(struct paths *paths, const struct config *config)
{
    const char *of_tls[CONFIG_TLS_PATHS];

    paths->count = 0;
    put(paths, config->data.root != NULL ? config->data.root : config->data.dir, NULL, true);
    for (size_t i = 0; i < SYSTEM_COUNT; i++) {
        put(paths, of_system[i], NULL, false);
    }
    put_file(paths, "/etc/resolv.conf");
    put_file(paths, config->file);
    for (size_t row = 0; row < setting_count; row++) {
        if (settings[row].type == &setting_path) {
            put_file(paths, config->origins[row].text);
        }
    }
    config_tls_paths(config, of_tls);
    for (size_t i = 0; i < CONFIG_TLS_PATHS; i++) {
        put_file(paths, of_tls[i]);
    }
}

/* Without it there is no sandbox. 0, or ERR_INVALID if there must be one. */
static int missing(const struct config *config, const char *what, int rv)
{
    if (config->process.sandbox == CONFIG_SANDBOX_ON) {
        log_error("app", "there is no sandbox, and sandbox = on", "missing=%s reason=\"%s\"", what,
                  strerror(-rv));
        return ERR_INVALID;
    }
    log_warn("app", "a part of the sandbox is off", "missing=%s reason=\"%s\"", what,
             strerror(-rv));
    return 0;
}

static int restrict_paths(const struct config *config)
{
    struct paths *paths = MUST_HAVE(malloc(sizeof *paths));
    unsigned version = 0;
    char quoted[LIMIT_PATH_BYTES + 77];
    int rv;

    collect(paths, config);
    rv = sandbox_paths_restrict(paths->list, paths->count, &version);
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->owned[i]);
    }
    free(paths);
    if (rv != 0) {
        return missing(config, "landlock", rv);
    }
    log_info("app", "only the paths that are needed can be opened", "landlock=%u writable=%s",
             version, log_quote(config->data.dir, strlen(config->data.dir), quoted, sizeof quoted));
    return 0;
}

int sandbox_begin(struct sandbox *sandbox, const struct config *config)
{
    int rv;

    *sandbox = (struct sandbox){.config = config};
    if (config->process.sandbox == CONFIG_SANDBOX_OFF ||
        config->process.sandbox == CONFIG_SANDBOX_DEBUG) {
        log_info("app", "there is no sandbox", "sandbox=%s",
                 config->process.sandbox == CONFIG_SANDBOX_OFF ? "off" : "debug");
        return 0;
    }
    if (restrict_paths(config) != 0) {
        return ERR_INVALID;
    }
    rv = sandbox_calls_restrict(SANDBOX_CALLS_START);
    sandbox->has_calls = rv == 0;
    return rv == 0 ? 0 : missing(config, "seccomp", rv);
}

int sandbox_complete(struct sandbox *sandbox)
{
    int rv;

    if (!sandbox->has_calls) {
        return 0;
    }
    rv = sandbox_calls_restrict(SANDBOX_CALLS_SERVE);
    if (rv != 0) {
        return missing(sandbox->config, "seccomp", rv);
    }
    log_info("app", "only the system calls that are needed can be made", "seccomp=yes");
    return 0;
}

/* The directory, if there is one, or else the one that it is to be made in; owned. */
static char *directory_of(const char *path)
{
    char *copy = MUST_HAVE(strdup(path));
    char *parent;

    if (access(path, F_OK) == 0) {
        return copy;
    }
    parent = MUST_HAVE(strdup(dirname(copy)));
    free(copy);
    return parent;
}

void sandbox_tool(const char *file, const char *const directories[], size_t count)
{
    struct paths *all = MUST_HAVE(malloc(sizeof *all));
    unsigned version = 0;
    int rv;

    ASSERT(count + SYSTEM_COUNT < PATHS_MAX);
    all->count = 0;
    if (file != NULL) {
        put(all, file, NULL, false);
    }
    for (size_t i = 0; i < SYSTEM_COUNT; i++) {
        put(all, of_system[i], NULL, false);
    }
    for (size_t i = 0; i < count; i++) {
        char *directory = directory_of(directories[i]);

        put(all, directory, directory, true);
    }
    rv = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
             ? sandbox_paths_restrict(all->list, all->count, &version)
             : -errno;
    for (size_t i = 0; i < all->count; i++) {
        free(all->owned[i]);
    }
    free(all);
    if (rv != 0) {
        log_info("app", "a part of the sandbox is off", "missing=landlock reason=\"%s\"",
                 strerror(-rv));
    }
    rv = sandbox_calls_restrict(SANDBOX_CALLS_TOOL);
    if (rv != 0) {
        log_info("app", "a part of the sandbox is off", "missing=seccomp reason=\"%s\"",
                 strerror(-rv));
    }
}

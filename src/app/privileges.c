/*
 * privileges.c - see privileges.h. Thread: main.
 */
#include "src/app/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/app/config/table.h"
#include "src/base/assert.h"

static int system_error(struct config_error *ret_error, const char *what, const char *object)
{
    return config_fail(ret_error, "%s %s: %s", what, object, strerror(errno));
}

static bool is_root(void)
{
    return geteuid() == 0 || getuid() == 0;
}

/* --- the data directory of another user --- */

/* A name that is new in a directory is durable with that directory. */
static int sync_parent(const char *dir, struct config_error *ret_error)
{
    char path[LIMIT_PATH_BYTES + 4];
    int fd;
    int rv;

    (void)snprintf(path, sizeof path, "%s/..", dir);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rv = fd >= 0 && fsync(fd) == 0 ? 0 : system_error(ret_error, "cannot sync", path);
    if (fd >= 0) {
        (void)close(fd);
    }
    return rv;
}

/* Make it if it is missing. One that is there is looked at when the store is opened. */
static int make_data_dir(const struct config *config, const struct passwd *user,
                         struct config_error *ret_error)
{
    const char *dir = config->data.dir;
    int rv;
    int fd;

    if (!config->data.create || mkdir(dir, 0700) != 0) {
        return 0; /* and if it is really missing, the store says so */
    }
    /* What was put in its place meanwhile is followed no further than to a directory. */
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchown(fd, user->pw_uid, user->pw_gid) != 0) {
        rv = system_error(ret_error, "cannot give the user data.dir", dir);
    } else {
        rv = sync_parent(dir, ret_error);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return rv;
}

/* --- who --- */

static int become(const struct passwd *user, struct config_error *ret_error)
{
    if (initgroups(user->pw_name, user->pw_gid) != 0 ||
        setresgid(user->pw_gid, user->pw_gid, user->pw_gid) != 0 ||
        setresuid(user->pw_uid, user->pw_uid, user->pw_uid) != 0) {
        return system_error(ret_error, "cannot become user", user->pw_name);
    }
    ASSERT(setuid(0) != 0 && !is_root());
    return 0;
}

static int check_readable(const char *path, const char *what, const char *user,
                          struct config_error *ret_error)
{
    return path[0] == '\0' || access(path, R_OK) == 0
               ? 0
               : config_fail(ret_error,
                             "%s %s: user %s cannot read it (%s), so no SIGHUP could have it read "
                             "again",
                             what, path, user, strerror(errno));
}

/* What root has read, the user has to be able to read again. */
static int check_files(const struct config *config, struct config_error *ret_error)
{
    const char *of_tls[CONFIG_TLS_PATHS];
    const char *user = config->process.user;
    int rv = check_readable(config->file, "config file", user, ret_error);

    for (size_t row = 0; rv == 0 && row < setting_count; row++) {
        if (settings[row].type == &setting_path) {
            rv = check_readable(config->origins[row].text, settings[row].name, user, ret_error);
        }
    }
    config_tls_paths(config, of_tls);
    for (size_t i = 0; rv == 0 && i < CONFIG_TLS_PATHS; i++) {
        rv = check_readable(of_tls[i], "file of a tls-dir", user, ret_error);
    }
    return rv;
}

/* The user that the setting names. */
static int find_user(const char *name, bool root_may, const struct passwd **ret_user,
                     struct config_error *ret_error)
{
    errno = 0;
    *ret_user = getpwnam(name); /* NOLINT(concurrency-mt-unsafe): there is no other thread yet */
    if (*ret_user == NULL) {
        return config_fail(ret_error, "user = %s: there is no such user%s%s", name,
                           errno != 0 ? ": " : "", errno != 0 ? strerror(errno) : "");
    }
    return root_may || (*ret_user)->pw_uid != 0
               ? 0
               : config_fail(ret_error, "user = %s is root: name a user without its rights", name);
}

/* By its name: what else is user 0 is a mistake. */
static bool stays_root(const struct config *config)
{
    return strcmp(config->process.user, CONFIG_ROOT) == 0;
}

int privileges_check(const struct config *config, struct config_error *ret_error)
{
    const char *name = config->process.user;
    const struct passwd *user;

    return name[0] == '\0' || stays_root(config) ? 0 : find_user(name, false, &user, ret_error);
}

static int drop_to_user(const struct config *config, struct config_error *ret_error)
{
    const char *name = config->process.user;
    const struct passwd *user;
    int rv = find_user(name, !is_root(), &user, ret_error);

    if (rv != 0) {
        return rv;
    }
    if (!is_root()) {
        return user->pw_uid == getuid()
                   ? 0
                   : config_fail(ret_error,
                                 "user = %s: only root can become another user, and this is user "
                                 "%u",
                                 name, (unsigned)getuid());
    }
    rv = make_data_dir(config, user, ret_error);
    if (rv == 0) {
        rv = become(user, ret_error);
    }
    return rv == 0 ? check_files(config, ret_error) : rv;
}

static bool is_dumpable(const struct config *config)
{
    return config->process.sandbox == CONFIG_SANDBOX_DEBUG;
}

int privileges_drop(const struct config *config, struct config_error *ret_error)
{
    int rv = 0;

    if (config->process.user[0] != '\0' && !(stays_root(config) && is_root())) {
        rv = drop_to_user(config, ret_error);
    } else if (is_root() && !stays_root(config)) {
        rv = config_fail(ret_error, "leafd does not run as root: start it as a user of its own, or "
                                    "set user to the one that it is to become (data.dir has to be "
                                    "theirs); user = root lets it run as root");
    }
    if (rv == 0) {
        /* A change of user puts the second one back. */
        ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        ASSERT(prctl(PR_SET_DUMPABLE, is_dumpable(config) ? 1 : 0, 0, 0, 0) == 0);
    }
    return rv;
}

void privileges_report(const struct config *config)
{
    if (is_root()) {
        log_warn("app", "running as root", "hint=\"set user, and give data.dir to that user\"");
    } else {
        log_info("app", "running without privileges", "uid=%u gid=%u dumpable=%s",
                 (unsigned)geteuid(), (unsigned)getegid(), is_dumpable(config) ? "yes" : "no");
    }
}

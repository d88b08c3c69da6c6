/*
 * sandbox_paths.c - see sandbox_paths.h. The C library has no functions for these three calls, and
 * the system's headers may be older than its kernel: so the numbers are here.
 *
 * Thread: one.
 */
#include "src/app/sandbox_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same on all architectures. */
#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE 445
#define CALL_RESTRICT_SELF 446

#define CREATE_VERSION 1U /* flag: tell the version */
#define RULE_PATH_BENEATH 1

/* Rights, with the version that knows them. */
#define RIGHT_EXECUTE (1ULL << 0)
#define RIGHT_WRITE_FILE (1ULL << 1)
#define RIGHT_READ_FILE (1ULL << 2)
#define RIGHT_READ_DIR (1ULL << 3)
#define RIGHT_REMOVE_DIR (1ULL << 4)
#define RIGHT_REMOVE_FILE (1ULL << 5)
#define RIGHT_MAKE_DIR (1ULL << 7)
#define RIGHT_MAKE_REG (1ULL << 8)
#define RIGHTS_1 ((1ULL << 13) - 1)
#define RIGHT_REFER (1ULL << 13)     /* 2 */
#define RIGHT_TRUNCATE (1ULL << 14)  /* 3 */
#define RIGHT_IOCTL_DEV (1ULL << 15) /* 5 */
#define SCOPES 3ULL                  /* 6: abstract sockets and signals */

#define RIGHTS_OF_FILES (RIGHT_EXECUTE | RIGHT_WRITE_FILE | RIGHT_READ_FILE | RIGHT_TRUNCATE)
#define RIGHTS_TO_READ (RIGHT_READ_FILE | RIGHT_READ_DIR)
#define RIGHTS_TO_WRITE                                                                            \
    (RIGHTS_TO_READ | RIGHT_WRITE_FILE | RIGHT_TRUNCATE | RIGHT_REMOVE_DIR | RIGHT_REMOVE_FILE |   \
     RIGHT_MAKE_DIR | RIGHT_MAKE_REG)

struct ruleset {
    uint64_t handled_fs; /* denied but where a rule allows it */
    uint64_t handled_net;
    uint64_t scoped;
};

struct rule {
    uint64_t allowed;
    int32_t parent_fd;
} __attribute__((packed));

static uint64_t rights_of(long version)
{
    return RIGHTS_1 | (version >= 2 ? RIGHT_REFER : 0) | (version >= 3 ? RIGHT_TRUNCATE : 0) |
           (version >= 5 ? RIGHT_IOCTL_DEV : 0);
}

/* 0 or a negative errno. */
static int allow(int ruleset_fd, const struct sandbox_path *path, uint64_t handled)
{
    struct rule rule = {.allowed = (path->writable ? RIGHTS_TO_WRITE : RIGHTS_TO_READ) & handled};
    struct stat st;
    int rv = 0;

    rule.parent_fd = open(path->path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0) {
        return 0; /* there is nothing to open */
    }
    if (fstat(rule.parent_fd, &st) != 0) {
        rv = -errno;
    } else if (!S_ISDIR(st.st_mode)) {
        rule.allowed &= RIGHTS_OF_FILES;
    }
    if (rv == 0 && syscall(CALL_ADD_RULE, ruleset_fd, RULE_PATH_BENEATH, &rule, 0) != 0) {
        rv = -errno;
    }
    (void)close(rule.parent_fd);
    return rv;
}

int sandbox_paths_restrict(const struct sandbox_path *paths, size_t count, unsigned *ret_version)
{
    long version = syscall(CALL_CREATE_RULESET, NULL, 0, CREATE_VERSION);
    struct ruleset ruleset = {.handled_fs = rights_of(version)};
    size_t size = version >= 6 ? sizeof ruleset : sizeof ruleset.handled_fs;
    int rv = 0;
    int fd;

    if (version < 1) {
        return version < 0 ? -errno : -ENOSYS;
    }
    ruleset.scoped = version >= 6 ? SCOPES : 0;
    fd = (int)syscall(CALL_CREATE_RULESET, &ruleset, size, 0);
    if (fd < 0) {
        return -errno;
    }
    for (size_t i = 0; rv == 0 && i < count; i++) {
        rv = allow(fd, &paths[i], ruleset.handled_fs);
    }
    if (rv == 0 && syscall(CALL_RESTRICT_SELF, fd, 0) != 0) {
        rv = -errno;
    }
    (void)close(fd);
    *ret_version = (unsigned)version;
    return rv;
}

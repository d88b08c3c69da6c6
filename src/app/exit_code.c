/*
 * exit_code.c - see exit_code.h. Thread: any.
 */
#include "src/app/exit_code.h"

#include "src/base/err.h"

enum exit_code exit_code_of_open(int err)
{
    /* Here the data directory itself says whose it is; later the cluster does. */
    return err == ERR_WRONG_NODE || err == ERR_NOT_FOUND ? EXIT_CODE_DATA : exit_code_of(err);
}

enum exit_code exit_code_of_recovery(int err)
{
    if (err == 0) {
        return EXIT_CODE_STOPPED;
    }
    return err == ERR_INVALID || err == ERR_IO || err == ERR_DISK_FULL ? exit_code_of(err)
                                                                       : EXIT_CODE_DATA;
}

enum exit_code exit_code_of(int err)
{
    switch (err) {
    case ERR_INVALID:
        return EXIT_CODE_CONFIG;
    case ERR_CORRUPT:
    case ERR_TRUNCATED:
    case ERR_BAD_VERSION:
    case ERR_NEWER:
    case ERR_LOCKED:
    case ERR_IMPLAUSIBLE:
    case ERR_UNSAFE_DIRECTORY:
        return EXIT_CODE_DATA;
    case ERR_EXISTS:
    case ERR_NOT_FOUND: /* of an address to listen on */
        return EXIT_CODE_ADDRESS;
    case ERR_IO:
    case ERR_DISK_FULL:
        return EXIT_CODE_DISK;
    case ERR_WRONG_NODE:
    case ERR_REFUSED:
    case ERR_OTHER_BIRTH:
    case ERR_STALE: /* an older copy of the data */
        return EXIT_CODE_REFUSED;
    case ERR_REMOVED:
        return EXIT_CODE_REMOVED;
    case ERR_DIVERGED:
        return EXIT_CODE_DIVERGED;
    case ERR_CONTRADICTED:
        return EXIT_CODE_WITNESS;
    default:
        return EXIT_CODE_INTERNAL;
    }
}

/*
 * files.h - how many of the descriptors that the system allows are for clients.
 *
 * Connections to peers, the store and the loops of the node come first: however many clients
 * connect, a peer that comes back finds a descriptor, and so does the node's next file. What is
 * left is divided among the HTTP threads.
 *
 * Thread: pure functions, any.
 */
#ifndef LEAFD_APP_FILES_H
#define LEAFD_APP_FILES_H

#include <stdint.h>

#define FILES_CONNECTIONS_MIN 16

/* Connections that each HTTP thread may have, and the one of the admin door. */
struct files_split {
    uint32_t connections;
    uint32_t admin_connections; /* 0: there is no such door */
};

/* Descriptors that are kept from clients, with so many HTTP threads, of all doors. */
uint64_t files_kept(uint32_t loops);

/* Without so many a node does not start at all. */
uint64_t files_least(uint32_t loops);

/* Divide what the `allowed` descriptors leave: at most what is wanted, at least
 * FILES_CONNECTIONS_MIN (or what is wanted, if that is less). admin_wanted: 0: there is no admin
 * door; else it has one thread, and gets a quarter of what is left. */
void files_divide(uint64_t allowed, uint32_t loops, uint32_t wanted, uint32_t admin_wanted,
                  struct files_split *ret_split);

#endif

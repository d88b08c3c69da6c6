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

/* Descriptors that are kept from clients, with so many HTTP threads. */
uint64_t files_kept(uint32_t loops);

/* Connections that each HTTP thread may have: those that are wanted, or as many as `allowed`
 * descriptors leave to it, at least FILES_CONNECTIONS_MIN. */
uint32_t files_connections(uint64_t allowed, uint32_t loops, uint32_t wanted);

#define FILES_CONNECTIONS_MIN 16

#endif

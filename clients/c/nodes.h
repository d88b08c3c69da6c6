/* The nodes behind endpoints: each stands for as many as its host has addresses.
 *
 * The happy path: door_nodes() gives the list as it is now, node_of() one of them, nodes_put() the
 * list back. A thread of the door's own resolves names: at the first call, after a round in which
 * all nodes failed, and when a call finds that the last time is long ago. Failure modes: of a name
 * that cannot be resolved what was known stays, at first the name itself, which libcurl resolves
 * then; a resolver that hangs is left behind by door_release(). Any thread. */
#ifndef LEAFD_CLIENTS_C_NODES_H
#define LEAFD_CLIENTS_C_NODES_H

#include "http.h"

enum { CONNECT_TO_BYTES = 64 };

/* Never changed once it is in a door. */
struct nodes {
    unsigned users; /* by the door's lock */
    unsigned count; /* 1 to NODES_MAX */
    struct {
        unsigned endpoint;
        char connect_to[CONNECT_TO_BYTES]; /* see struct node; "": the host */
    } list[NODES_MAX];
};

struct resolving;

/* An endpoints' nodes, and which of them is asked. */
struct door {
    const struct endpoints *endpoints; /* borrowed from the settings */
    atomic_uint current;
    bool named; /* some host is a name */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* names were resolved */
    struct nodes *nodes;
    struct resolving *resolving; /* NULL: nothing is */
    uint64_t resolved_ns;        /* 0: never yet */
};

/* False: no memory. */
bool door_init(struct door *door, const struct endpoints *endpoints, unsigned random);

/* In a child of fork: nobody resolves, and another node is the first. */
void door_forget(struct door *door, unsigned random);
void door_release(struct door *door);

/* The list, for nodes_put(). failed: all of them just failed. It waits up to wait_ms for names that
 * were never resolved, or if failed. */
struct nodes *door_nodes(struct door *door, bool failed, uint64_t wait_ms);
void nodes_put(struct door *door, struct nodes *nodes);

/* How many there are now. */
unsigned door_count(struct door *door);

struct node node_of(const struct door *door, const struct nodes *nodes, unsigned at);

/* The endpoint and the address, for people. */
enum { NODE_TEXT_BYTES = URL_BYTES + CONNECT_TO_BYTES + 4 };
void node_text(const struct node *node, char into[NODE_TEXT_BYTES]);
#endif

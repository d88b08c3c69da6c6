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

/* Work that one of the client's threads does once. Part of whatever it belongs to. */
struct job {
    void (*run)(void *context);
    void *context;
    bool is_urgent; /* others wait for it that are jobs themselves: it has threads beyond those */
    struct job *next;
};

enum {
    CONNECT_TO_BYTES = 64,
    LISTED_MAX = NODES_MAX - ENDPOINTS_MAX, /* nodes that others listed (discover.h) */
    LISTED = ENDPOINTS_MAX,                 /* in place of an endpoint */
    LAST_TIER = 3,                          /* that of endpoints; the best is 1 */
    UID_BYTES = 65,                         /* of a cluster */
    PLACE_BYTES = URL_BYTES + CONNECT_TO_BYTES,
    NODE_TEXT_BYTES = URL_BYTES + CONNECT_TO_BYTES + 4
};

struct listed_node {
    unsigned endpoint; /* whose address it is; LISTED: nobody's */
    unsigned tier;
    long long id; /* of a node that is listed; 0 */
    char url[URL_BYTES];
    char connect_to[CONNECT_TO_BYTES]; /* see struct node; "": the host */
};

/* Never changed once it is in a door. Tiers rise. Hidden ones follow those that are asked: they are
 * endpoints that are listed as well. */
struct nodes {
    unsigned users; /* by the door's lock */
    unsigned count; /* 1 to NODES_MAX */
    unsigned hidden;
    uint32_t serial; /* of the list among those of the door */
    struct listed_node list[NODES_MAX];
};

struct resolving;

/* Of discover.h; guarded by the door's lock. */
struct discovery {
    bool wanted;        /* never changed */
    bool for_snowflake; /* likewise: whether a node serves these is what counts */
    bool asking;        /* the job is under way */
    bool ended;         /* some has ended */
    bool drawn;         /* a node of a listing was chosen */
    uint64_t asked_ns;  /* when it began last; 0: never yet */
    uint64_t again_ns;  /* after so long the next one */
    struct job job;
    struct leafd *client;
};

/* Of discover.h, for all doors of a client; guarded by the client's lock. */
struct known_cluster {
    char uid[UID_BYTES]; /* "": not known yet */
    atomic_bool whole;   /* uid is: written after it, for a child of a fork in between */
    bool told;           /* that a listing has another one */
    /* Nodes whose last listing has another one, the latest first; the oldest is pushed out. */
    struct {
        char node[NODE_TEXT_BYTES]; /* "": none */
        char uid[UID_BYTES];
    } others[NODES_MAX];
};

/* An endpoints' nodes, and which of them is asked. */
struct door {
    const struct endpoints *endpoints; /* borrowed from the settings */
    unsigned current;                  /* of nodes; guarded by lock */
    bool named;                        /* some host is a name */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* names were resolved, or nodes listed */
    struct nodes *nodes;
    struct discovery discovery;
    struct resolving *resolving; /* NULL: nothing is */
    uint64_t resolved_ns;        /* 0: never yet */
};

/* False: no memory. */
bool door_init(struct door *door, const struct endpoints *endpoints, unsigned random);

/* In a child of fork: nobody resolves, and another node is the first. */
void door_forget(struct door *door, unsigned random);
void door_release(struct door *door);

/* The list, for nodes_put(), and which of it is asked, unless at is NULL. failed: all of them just
 * failed. It waits up to wait_ms for names that were never resolved, or if failed. */
struct nodes *door_nodes(struct door *door, bool failed, uint64_t wait_ms, unsigned *at);
void nodes_put(struct door *door, struct nodes *nodes);

/* The nodes of part, by tier, are those that are listed from now on; or, not are_listed, those of
 * the endpoints; the others stay. Node chosen of them is asked from now on; NODES_MAX: the one that
 * was asked before, if it is still there. True: it is another one; texts has both. */
bool door_set(struct door *door, const struct nodes *part, bool are_listed, unsigned chosen,
              char texts[2][NODE_TEXT_BYTES]);

/* Node to of a list of the door, which may be an older one, is asked from now on in place of from;
 * false: that is not asked any more. */
bool door_leave(struct door *door, const struct nodes *nodes, unsigned from, unsigned to);

/* The next node of the same tier; the same one if it is alone there. */
unsigned nodes_beside(const struct nodes *nodes, unsigned at);

/* How many nodes the tier of this one has. */
unsigned nodes_in_tier(const struct nodes *nodes, unsigned at);

/* "host:port" to which a connection is made. */
void place_of(const struct listed_node *node, char into[PLACE_BYTES]);

/* Borrowed from the list. */
struct node node_of(const struct nodes *nodes, unsigned at);

/* The endpoint and the address, for people. */
void node_text(const struct node *node, char into[NODE_TEXT_BYTES]);
#endif

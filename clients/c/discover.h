/* Nodes that a client finds by asking one of those that it knows (docs/clients.md, Zones).
 *
 * The happy path: discover_nodes() at the begin of a call has a job ask GET /api/nodes; the nodes
 * of the answer become the door's, by tiers, each once it has shown to be of the same cluster.
 * Failure modes: nodes answer 404 (older servers), then the endpoints alone are asked for a minute;
 * an answer that is no listing, or none, after which what was known stays; a node of another
 * cluster than the first listing's, which gets no other request. Any thread. */
#ifndef LEAFD_CLIENTS_C_DISCOVER_H
#define LEAFD_CLIENTS_C_DISCOVER_H

#include "client.h"

enum { FOREIGN_BYTES = 2 * UID_BYTES + 40 };

/* Begin it if it is time, or failed: all nodes just did. It waits for the nodes, up to first_ms
 * where none were asked for yet, up to connect_ms if failed. */
void discover_nodes(struct leafd *client, struct door *door, bool failed, uint64_t first_ms);

/* In a child of fork, whose cluster is its parent's: find out anew which nodes are of others. */
void discover_forget(struct leafd *client);

/* Of the nodes of a list: whether node at is of another cluster than the client's, which why says;
 * or all are. */
enum foreign { FOREIGN_NOT, FOREIGN_ONE, FOREIGN_ALL };
enum foreign discover_foreign(struct leafd *client, const struct nodes *nodes, unsigned at,
                              char why[FOREIGN_BYTES]);
#endif

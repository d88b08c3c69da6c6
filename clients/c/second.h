/* A second request beside one by a key that takes long (docs/clients.md, Nodes and retries).
 *
 * The happy path: the first node answers in time, and second_ask() is line_ask(). Else a thread of
 * the client asks the next node the same; of the answers the first good one is taken, and the other
 * request is ended: by the key both have the same ids. Failure modes: those of line_ask(); no
 * thread or no memory for a second one, which is not sent then. Any thread. */
#ifndef LEAFD_CLIENTS_C_SECOND_H
#define LEAFD_CLIENTS_C_SECOND_H

#include "client.h"

/* *at: the address to ask, and the one that answered; *line likewise: another one may be borrowed
 * in its place. */
enum ask second_ask(const struct call *call, unsigned *at, struct line **line,
                    const struct limits *limits, struct answer *answer);
#endif

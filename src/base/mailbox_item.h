/*
 * mailbox_item.h - what is put into a mailbox (src/loop/mailbox.h): a link, and what is then run.
 *
 * Here and not there, so that a request to the cluster, which knows no loops, has its own: nothing
 * is allocated to hand it over. Failure modes: none. Thread: whose the item is.
 */
#ifndef LEAFD_BASE_MAILBOX_ITEM_H
#define LEAFD_BASE_MAILBOX_ITEM_H

#include <sys/queue.h>

struct mailbox_item {
    STAILQ_ENTRY(mailbox_item) link;
    void (*run)(struct mailbox_item *item); /* on the loop's thread; the item is its own again */
};

#endif

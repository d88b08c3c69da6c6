/*
 * container.h - from a member back to the struct that holds it, for vtables and intrusive links;
 * the element count of an array; the link of a mailbox item.
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_CONTAINER_H
#define LEAFD_BASE_CONTAINER_H

#include <stddef.h>
#include <sys/queue.h>

/* The struct of this type whose member is at pointer. */
#define CONTAINER(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* How many elements an array has. */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* After the closing brace of a struct of functions: initializers must name its members, so that a
 * new member in the middle cannot shift the others. GCC refuses any that do not. */
#if defined(__GNUC__) && !defined(__clang__)
#define BY_NAME __attribute__((designated_init))
#else
#define BY_NAME
#endif

/* An item of a mailbox (src/loop/mailbox.h). Defined here so that a request to the cluster, which
 * knows no loops, can embed one: nothing is allocated to hand it over. */
struct mailbox_item {
    STAILQ_ENTRY(mailbox_item) link;
    void (*run)(struct mailbox_item *item); /* on the loop's thread; the item is its own again */
};

#endif

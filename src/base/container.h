/*
 * container.h - from a member back to the struct that holds it, for vtables and intrusive links.
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_CONTAINER_H
#define LEAFD_BASE_CONTAINER_H

#include <stddef.h>

/* The struct of this type whose member is at pointer. */
#define CONTAINER(pointer, type, member)                                                           \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif

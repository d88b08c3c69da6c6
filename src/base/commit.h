/*
 * commit.h - the commit that this program was built from.
 *
 * It stands in a file of its own, so that a new commit compiles that file anew and no other.
 * Thread: any.
 */
#ifndef LEAFD_BASE_COMMIT_H
#define LEAFD_BASE_COMMIT_H

/* Twelve hexadecimal digits; empty where the sources had no history. Static. */
extern const char commit_built[];

#endif

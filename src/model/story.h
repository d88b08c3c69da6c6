/*
 * story.h - an execution for people: the events of each thread in its order, with what each load
 * read from. Thread: one.
 */
#ifndef LEAFD_MODEL_STORY_H
#define LEAFD_MODEL_STORY_H

#include "src/model/graph.h"

/* As much as fits, with a NUL. */
void story_write(const struct graph *graph, char *ret_text, size_t bytes);

#endif

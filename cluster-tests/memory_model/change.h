/*
 * change.h - a store was found: which loads of the graph may read from it? Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_CHANGE_H
#define LEAFD_MEMORY_MODEL_CHANGE_H

#include "cluster-tests/memory_model/graph.h"

/* A store was found that is to be added (it is the last event of the graph, and has no place yet):
 * push the executions in which loads that are there read from it. */
void change_loads(const struct graph *graph, int store);

#endif

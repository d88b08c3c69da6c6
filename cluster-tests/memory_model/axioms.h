/*
 * axioms.h - does an execution keep the axioms of C11? Written out as relations, slowly and with no
 * thought of how it was found, so that the explorer can be checked against it.
 *
 * The axioms are those of RC11 (Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing Sequential
 * Consistency in C/C++11, PLDI 2017), which is C11 with its rules for seq_cst mended as C++20 does:
 *  - hb, the order of what happens before what, is irreflexive, and so is hb;eco (coherence), where
 *    eco is the closure of reads-from, modification order and reads-before;
 *  - a read-modify-write stores right behind what it read (atomicity);
 *  - psc, the order that seq_cst demands, is acyclic;
 * without its last one, which forbids that a load reads from a store that depends on it: C11 allows
 * that. Release sequences are those of C++20, which promise less than C11's.
 *
 * Thread: one.
 */
#ifndef LEAFD_MEMORY_MODEL_AXIOMS_H
#define LEAFD_MEMORY_MODEL_AXIOMS_H

#include "cluster-tests/memory_model/graph.h"

/* True if a graph, all of whose stores have a place, keeps all of them. */
bool axioms_hold(const struct graph *graph);

/* Are there events that only the axiom of seq_cst speaks of? */
bool axioms_need_sc(const struct graph *graph);

#endif

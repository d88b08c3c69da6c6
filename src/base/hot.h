/*
 * hot.h - where the linker puts a function: HOT for what every request for an id runs through, COLD
 * for what none does that goes well.
 *
 * Between two requests the kernel has had the processor's caches, so that a request costs less by
 * its instructions than by the lines and pages of code it touches. HOT functions lie side by side
 * (16 pages of code became 5), and what leads to a call of a COLD one is moved out of their way.
 *
 * Neither changes what a function does. Thread: any.
 */
#ifndef LEAFD_BASE_HOT_H
#define LEAFD_BASE_HOT_H

#define HOT __attribute__((hot))
#define COLD __attribute__((cold))

#endif

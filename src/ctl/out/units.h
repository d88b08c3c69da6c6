/*
 * units.h - numbers as people read them. Thread: any; each returns the buffer it was given.
 */
#ifndef LEAFD_CTL_OUT_UNITS_H
#define LEAFD_CTL_OUT_UNITS_H

#include <stdint.h>

#define UNITS_BYTES 40

/* 12 B, 3.4 KiB, 1.2 GiB */
const char *units_bytes(uint64_t bytes, char out[UNITS_BYTES]);

/* 850 ms, 12 s, 5 min, 3 h 20 min, 12 d */
const char *units_ms(uint64_t ms, char out[UNITS_BYTES]);

#endif

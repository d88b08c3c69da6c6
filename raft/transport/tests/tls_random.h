/*
 * tls_random.h - OpenSSL's random numbers, the same in each run: for fuzzers, whose inputs shall
 * show tomorrow what they show today.
 *
 * Thread: the fuzzer's.
 */
#ifndef LEAFD_RAFT_TRANSPORT_TESTS_TLS_RANDOM_H
#define LEAFD_RAFT_TRANSPORT_TESTS_TLS_RANDOM_H

/* From now on they are those of a fixed seed, from its first one. For the whole process. */
void tls_random_restart(void);

#endif

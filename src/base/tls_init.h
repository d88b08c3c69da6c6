/*
 * tls_init.h - the first call of OpenSSL in a process.
 *
 * OpenSSL would read openssl.cnf and the environment by itself, so that a file of the system, or
 * OPENSSL_CONF, could change the protocols and the providers of leafd; and it would free what
 * threads still use when the process ends. Neither is wanted.
 *
 * The happy path: tls_library_init() before anything else of OpenSSL is called, by whoever is about
 * to call it. Repeated calls do nothing.
 *
 * Failure modes: the library cannot be used at all: the process ends (ASSERT).
 *
 * Thread: any.
 */
#ifndef LEAFD_BASE_TLS_INIT_H
#define LEAFD_BASE_TLS_INIT_H

void tls_library_init(void);

#endif

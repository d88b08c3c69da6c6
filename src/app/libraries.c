/*
 * libraries.c - see libraries.h. LMDB's header belongs to its layer, so that is asked. C-Raft is
 * linked statically and the build takes one exact version. Thread: any.
 */
#include "src/app/libraries.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <uv.h>

#include "storage/lmdb/store.h"

#ifndef LEAFD_RAFT_VERSION
#define LEAFD_RAFT_VERSION "0.22.1"
#endif

void libraries_json(struct buf *out)
{
    buf_printf(out,
               "{\"libuv\":\"%s\",\"lmdb\":\"%s\",\"c-raft\":\"%s\","
               "\"jansson\":\"%s\",\"openssl\":\"%s\"}",
               uv_version_string(), store_lmdb_version(), LEAFD_RAFT_VERSION, jansson_version_str(),
               OpenSSL_version(OPENSSL_VERSION_STRING));
}

/*
 * core_noop.h - bytes of a command that does nothing, for tests. Thread: the test's.
 */
#ifndef LEAFD_RAFT_CORE_TESTS_CORE_NOOP_H
#define LEAFD_RAFT_CORE_TESTS_CORE_NOOP_H

#include "src/id/codec/command.h"
#include "src/state/codec/cluster_command.h"

static const uint8_t NOOP_BYTES[SESSION_STAMP_AT + SESSION_STAMP_BYTES] = {COMMAND_VERSION,
                                                                           COMMAND_NOOP};

#endif

/*
 * rules.h - what holds between settings: defaults that come from other settings, and rules that
 * several of them keep together (docs/configuration.md lists these).
 *
 * Failure modes: ERR_INVALID, with a text that names each setting with its value and where that
 * came from. Thread: main.
 */
#ifndef LEAFD_APP_CONFIG_RULES_H
#define LEAFD_APP_CONFIG_RULES_H

#include "src/app/config/config.h"

/* Of settings that each keep their own rule: fill in the defaults that come from others, read the
 * secret, and check the rules. 0 or ERR_INVALID. */
int rules_apply(struct config *config, struct config_error *ret_error) MUST_CHECK;

/* Can ids of the layout be stamped at this time? A clock that stands before leafd was written is
 * wrong, and no reason to refuse an epoch. 0 or ERR_INVALID. */
int rules_layout(const struct config *config, uint64_t now_ms,
                 struct config_error *ret_error) MUST_CHECK;

/* Threads that serve HTTP where nothing is set: one less than the processors, at least one. */
uint32_t rules_http_loops(unsigned processors);

#endif

/*
 * report.h - what the log says of a start: the settings in force, what may be a mistake, and why
 * the node did not start, each with what can be done about it. Thread: main.
 */
#ifndef LEAFD_APP_REPORT_H
#define LEAFD_APP_REPORT_H

#include "src/app/config/config.h"
#include "src/app/files.h"

/* The first lines of the log. */
void report_settings(const struct config *config);

/* What is allowed, and may yet be a mistake. */
void report_warnings(const struct config *config);

/* How many files may be open, how many of them are kept from clients, and how many connections each
 * HTTP thread may have therefore. */
void report_files(const struct config *config, uint64_t allowed, uint64_t kept,
                  const struct files_split *split);

/* The data directory cannot be used: err says why, text more exactly. */
void report_data_refused(const struct config *config, int err, const char *text);

/* It was deleted under the process, which ends. */
void report_data_lost(const struct config *config, const char *text, int exit_code);

/* There is no store, and none may be made. */
void report_data_missing(const struct config *config);

/* The node, or HTTP, did not start. */
void report_node_failed(const struct config *config, int err, const char *text);
void report_too_few_files(uint64_t allowed, uint64_t least, int exit_code);

void report_http_failed(const char *setting, const char *address, const char *resp, int err,
                        int number);

/* auth.tokens-file cannot be used. */
void report_tokens_failed(const char *why);
void report_certificate_refused(const char *text);

/* Its data is lost, and it comes back under another id, or cannot. */
void report_replaced(const struct config *config, uint64_t id, int exit_code);
void report_not_replaced(const char *why);

/* The cluster has removed this node. */
void report_removed(const struct config *config, int exit_code);

#endif

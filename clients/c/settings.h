/* What a client is made with: read from texts, checked once, never changed. */
#ifndef LEAFD_CLIENTS_C_SETTINGS_H
#define LEAFD_CLIENTS_C_SETTINGS_H

#include "leafd.h"

enum { ENDPOINTS_MAX = 16, URL_BYTES = 512, TOKEN_CHARS = 512, FILE_BYTES = 4096 };

/* Base URLs without a slash at the end. */
struct endpoints {
    unsigned count;
    char urls[ENDPOINTS_MAX][URL_BYTES];
};

struct settings {
    struct endpoints ids;
    struct endpoints admin;
    bool has_admin;              /* it was given, and is not that of ids */
    char token[TOKEN_CHARS + 1]; /* empty: none; of token_file: the first one */
    char token_file[FILE_BYTES]; /* empty: none */
    char ca_file[FILE_BYTES];    /* empty: the system's */
    char cert_file[FILE_BYTES];  /* empty: none */
    char key_file[FILE_BYTES];
    char zone[129]; /* empty: none */
    enum { DISCOVER_WITH_ZONE, DISCOVER, DISCOVER_NOT } discover;
    uint64_t connect_ms, attempt_ms, deadline_ms, cover_ms, min_count, max_count, window_ms,
        max_age_ms;
};

/* The token in a file: its one line, without blanks around it. False: there is none. */
bool settings_read_token(const char *path, char token[TOKEN_CHARS + 1]);

/* 0, or -1 with "bad_setting". Without endpoints, they and who is asking are the environment's. */
int settings_read(struct settings *settings, const char *const *texts, struct leafd_error *error);
#endif

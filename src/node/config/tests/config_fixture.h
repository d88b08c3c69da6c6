/*
 * config_fixture.h - what the tests of the configuration share: a directory with a file in it, and
 * loading with an expectation. Thread: one.
 */
#ifndef LEAFD_NODE_CONFIG_TESTS_CONFIG_FIXTURE_H
#define LEAFD_NODE_CONFIG_TESTS_CONFIG_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/node/config/config.h"

#define ARGS(...) ((char *[]){"leafd", __VA_ARGS__, NULL})
#define ENV(...) ((char *[]){__VA_ARGS__, NULL})
#define NO_ENV ((char *[]){NULL})
#define NODE_1 "--node-id", "1", "--cluster-members", "1=127.0.0.1:7081"

/* Two secrets, as --new-secret might print them, and in hex. */
#define SOME_SECRET "lKBlaF1kxJgLuNRUSochqZoBrSGetZz2oV728Vodgws="
#define HEX_SECRET "82b70eee7f1a5039bef07ec2347f066ed08f5dc7512447e3404300026b6e5455"

struct config_fixture {
    char dir[64];
    char path[96]; /* of the file that file_make() makes */
    struct config config;
    struct config_error error;
    enum config_action action;
};

int config_setup(void **state);
int config_teardown(void **state);

/* Write the fixture's file. */
void file_make_bytes(struct config_fixture *f, const void *data, size_t len, mode_t mode);
void file_make(struct config_fixture *f, const char *text);

/* Load into the fixture; config_load()'s result. */
int load(struct config_fixture *f, char *args[], char *env[]);

/* The same; it must go well, or fail with the text in the error. */
void expect_ok(struct config_fixture *f, char *args[], char *env[]);
void expect_error(struct config_fixture *f, char *args[], char *env[], const char *text);

/* The same with one flag beside those that are needed. */
void expect_flag_ok(struct config_fixture *f, const char *flag, const char *value);
void expect_flag_error(struct config_fixture *f, const char *flag, const char *value,
                       const char *text);

/* Where a setting came from. */
const struct config_origin *origin(const struct config_fixture *f, const char *name);

#endif

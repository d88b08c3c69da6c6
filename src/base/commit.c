/*
 * commit.c - see commit.h. The Makefile gives LEAFD_COMMIT to this file alone.
 */
#include "src/base/commit.h"

const char commit_built[] = LEAFD_COMMIT;

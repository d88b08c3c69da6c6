/*
 * commit.c - the commit of process.h. The Makefile gives LEAFD_COMMIT to this file alone.
 */
#include "src/base/process.h"

const char commit_built[] = LEAFD_COMMIT;

/*
 * group.h - lets many files of unit tests be one program.
 *
 * The compiler reads it before each test_*.c (-include, see scripts/tests.mk). The main() of the
 * file becomes a group of tests, which adds itself to the program that it is linked into; main.c
 * runs them. So a layer is linked once, and a file of tests can still be a program of its own.
 *
 * Thread: constructors run before there is a second one.
 */
#ifndef LEAFD_TESTS_UNIT_GROUP_H
#define LEAFD_TESTS_UNIT_GROUP_H

struct unit_group {
    const char *file; /* src/id/alloc/tests/test_segment.c */
    int (*run)(void); /* returns how many tests failed */
    struct unit_group *next;
};

/* Borrows the group for the rest of the program. */
void unit_group_add(struct unit_group *group);

#ifdef UNIT_GROUP /* a test_*.c is compiled, which is one */
static int unit_group_main(void);

__attribute__((constructor)) static void unit_group_register(void)
{
    static struct unit_group group = {__BASE_FILE__, unit_group_main, 0};

    unit_group_add(&group);
}

#define main(...) unit_group_main(void)
#endif

#endif

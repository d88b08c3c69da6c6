/*
 * exit.h - how leafctl ends; docs/leafctl.md says what each means.
 *
 * 1 and 2 are those of monitoring plugins; the others follow sysexits(3) where it has a fitting
 * one. Thread: any.
 */
#ifndef LEAFD_CTL_OUT_EXIT_H
#define LEAFD_CTL_OUT_EXIT_H

enum ctl_exit {
    CTL_DONE = 0,
    CTL_WARNING = 1,      /* `check` has something to say */
    CTL_CRITICAL = 2,     /* `check` found what cannot wait */
    CTL_NOT_FOUND = 4,    /* no such tag, member or worker id */
    CTL_USAGE = 64,       /* the command line, a setting or a file that it names is wrong */
    CTL_DATA = 65,        /* a file of data is damaged, or has rows that break a rule */
    CTL_UNREACHABLE = 69, /* no server answered; nothing was done */
    CTL_INTERNAL = 70,    /* a bug, here or in an answer */
    CTL_OUTPUT = 74,      /* what was to be written could not be */
    CTL_UNKNOWN = 75,     /* no answer in time: it may or may not have been done, or goes on */
    CTL_REFUSED = 76,     /* the cluster refused */
    CTL_DENIED = 77       /* a token, a role or the right door is missing */
};

#endif

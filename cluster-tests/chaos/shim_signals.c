/*
 * shim_signals.c - a program to be run behind disk_shim.c: signals whose handler writes to a pipe,
 * as libuv's does, come in the midst of the writes of two threads.
 *
 *     shim_signals COUNT
 *
 * Ends with 0 once COUNT signals were handled. Where the shim takes a lock it hangs at some time.
 *
 * Threads: the handler runs in the two that write; main counts what comes out of the pipe.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static int handled[2]; /* a pipe: a byte a signal */

static void handle(int signal_number)
{
    (void)signal_number;
    (void)!write(handled[1], "", 1);
}

static void *write_on(void *unused)
{
    (void)unused;
    for (;;) {
        (void)!write(STDERR_FILENO, "", 0);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long left = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t writers[2];
    char bytes[256];
    sigset_t set;

    if (left <= 0 || pipe(handled) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) {
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&writers[i], NULL, write_on, NULL) != 0) {
            return 2;
        }
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL); /* the others take them */
    while (left > 0) {
        ssize_t n;

        (void)kill(getpid(), SIGUSR1);
        n = read(handled[0], bytes, sizeof bytes); /* waits for this one at least */
        left -= n;
    }
    return 0;
}

/* A server for the tests of libleafd, in this process: it answers as the test likes.
 *
 * The happy path: server_start() with a function that makes the answers, requests to server->url,
 * server_stop(), which waits for all that was begun. Each connection has a thread; answers are made
 * one at a time, with the lock. */
#ifndef LEAFD_CLIENTS_C_TESTS_SERVER_H
#define LEAFD_CLIENTS_C_TESTS_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { TEXT_MAX = 4096 };

struct connection;

struct served {
    char method[16];
    char target[512];
    char head[TEXT_MAX];
    char body[TEXT_MAX];
};

struct server {
    /* Write the whole answer; nothing: the connection is closed. */
    void (*answer)(struct server *server, const struct served *request, char into[TEXT_MAX]);
    char url[64];
    pthread_mutex_t lock;
    struct served last;
    unsigned requests, connections;
    int64_t next_id;     /* for the answers of server_ids() */
    int64_t next_worker; /* and for its worker ids: 1023 before one comes again */
    int listener;
    pthread_t thread;
    struct connection *open; /* those that have a thread; by the lock */
    pthread_cond_t ended;    /* one less */
};

void server_start(struct server *server,
                  void (*answer)(struct server *, const struct served *, char into[TEXT_MAX]));
/* Ends what is open. No answer is made, and nothing of the server is touched, afterwards. */
void server_stop(struct server *server);
unsigned server_requests(struct server *server);

/* An answer of this status, with this body. */
void server_say(char into[TEXT_MAX], int status, const char *more_headers, const char *body);

/* Ids from next_id on, as many as are asked for; worker ids as leafd grants them. */
void server_ids(struct server *server, const struct served *request, char into[TEXT_MAX]);

/* The value of a number in a target, as count=; 0 without it. */
uint64_t option(const char *target, const char *name);
#endif

/* See server.h. */
#include "server.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct connection {
    struct server *server;
    struct connection *next;
    int fd;
};

static void must(bool good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

uint64_t option(const char *target, const char *name)
{
    const char *at = strstr(target, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

void server_say(char into[TEXT_MAX], int status, const char *more_headers, const char *body)
{
    (void)snprintf(into, TEXT_MAX,
                   "HTTP/1.1 %d Answer\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                   "%s\r\n%s",
                   status, strlen(body), more_headers, body);
}

static int64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void server_ids(struct server *server, const struct served *request, char into[TEXT_MAX])
{
    char body[512];
    if (strstr(request->target, "/api/workers") == NULL) {
        uint64_t count = option(request->target, "count=");
        (void)snprintf(body, sizeof body, "%lld %lld\n", (long long)server->next_id,
                       (long long)(server->next_id + (int64_t)count - 1));
        server->next_id += (int64_t)count;
        server_say(into, 200, "", body);
    } else if (strcmp(request->method, "DELETE") == 0) {
        (void)snprintf(into, TEXT_MAX, "HTTP/1.1 204 No Content\r\n\r\n");
    } else {
        bool fresh = strcmp(request->method, "POST") == 0;
        server->next_worker += fresh ? 1 : 0;
        (void)snprintf(body, sizeof body,
                       "{\"worker_id\":%lld,\"epoch\":1,\"from_ms\":0,\"until_ms\":%lld,\"layout\":"
                       "{\"epoch_ms\":1288834974657,\"time_bits\":41,\"worker_bits\":10,"
                       "\"sequence_bits\":12}}",
                       (long long)server->next_worker % 1024, (long long)wall_ms() + 60000);
        server_say(into, fresh ? 201 : 200, "", body);
    }
}

/* The request at the begin of the text, which has length bytes then; 0: it is not whole. */
static size_t read_request(char *text, struct served *request)
{
    char *end = strstr(text, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    memset(request, 0, sizeof *request);
    (void)sscanf(text, "%15s %511s", request->method, request->target);
    size_t head = (size_t)(end - text) + 4;
    size_t body = (size_t)option(text, "Content-Length: ");
    if (strlen(text) < head + body || head >= TEXT_MAX || body >= TEXT_MAX) {
        return 0;
    }
    memcpy(request->head, text, head);
    memcpy(request->body, text + head, body);
    return head + body;
}

static bool answer_one(struct server *server, int fd, const struct served *request)
{
    char into[TEXT_MAX] = "";
    pthread_mutex_lock(&server->lock);
    server->requests++;
    server->last = *request;
    server->answer(server, request, into);
    pthread_mutex_unlock(&server->lock);
    return into[0] != 0 && send(fd, into, strlen(into), MSG_NOSIGNAL) > 0;
}

/* The thread's last step: from here on the server may be gone. */
static void leave(struct connection *connection)
{
    struct server *server = connection->server;
    struct connection **at = &server->open;
    pthread_mutex_lock(&server->lock);
    while (*at != connection) {
        at = &(*at)->next;
    }
    *at = connection->next;
    close(connection->fd);
    pthread_cond_signal(&server->ended);
    pthread_mutex_unlock(&server->lock);
    free(connection);
}

static void *serve(void *context)
{
    struct connection *connection = context;
    char text[2 * TEXT_MAX] = "";
    size_t used = 0;
    bool goes_on = true;
    while (goes_on) {
        ssize_t got = recv(connection->fd, text + used, sizeof text - used - 1, 0);
        goes_on = got > 0;
        used += goes_on ? (size_t)got : 0;
        text[used] = 0;
        struct served request;
        size_t whole = read_request(text, &request);
        if (goes_on && whole > 0) {
            goes_on = answer_one(connection->server, connection->fd, &request);
            memmove(text, text + whole, used - whole + 1);
            used -= whole;
        }
    }
    leave(connection);
    return NULL;
}

static void *accept_all(void *context)
{
    struct server *server = context;
    for (;;) {
        int fd = accept(server->listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        pthread_t thread;
        struct connection *connection = malloc(sizeof *connection);
        must(connection != NULL, "malloc");
        pthread_mutex_lock(&server->lock);
        *connection = (struct connection){server, server->open, fd};
        server->open = connection;
        server->connections++;
        pthread_mutex_unlock(&server->lock);
        must(pthread_create(&thread, NULL, serve, connection) == 0, "thread");
        pthread_detach(thread);
    }
}

void server_start(struct server *server,
                  void (*answer)(struct server *, const struct served *, char into[TEXT_MAX]))
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    memset(server, 0, sizeof *server);
    server->answer = answer;
    server->next_id = 1;
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->ended, NULL);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(server->listener >= 0, "socket");
    must(bind(server->listener, (struct sockaddr *)&address, bytes) == 0, "bind");
    must(listen(server->listener, 64) == 0, "listen");
    must(getsockname(server->listener, (struct sockaddr *)&address, &bytes) == 0, "getsockname");
    (void)snprintf(server->url, sizeof server->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    must(pthread_create(&server->thread, NULL, accept_all, server) == 0, "thread");
}

void server_stop(struct server *server)
{
    shutdown(server->listener, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listener);
    pthread_mutex_lock(&server->lock);
    for (struct connection *at = server->open; at != NULL; at = at->next) {
        shutdown(at->fd, SHUT_RDWR);
    }
    while (server->open != NULL) {
        pthread_cond_wait(&server->ended, &server->lock);
    }
    pthread_mutex_unlock(&server->lock);
    pthread_cond_destroy(&server->ended);
    pthread_mutex_destroy(&server->lock);
}

unsigned server_requests(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    unsigned requests = server->requests;
    pthread_mutex_unlock(&server->lock);
    return requests;
}

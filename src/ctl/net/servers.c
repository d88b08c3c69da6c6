/*
 * servers.c - see servers.h. Thread: one.
 */
#include "src/ctl/net/servers.h"

#include <stdio.h>
#include <string.h>

#include "src/base/assert.h"

#define BETWEEN_DOORS ".listen, " /* in the message: what stands before the address */

static int servers_add(struct servers *servers, const char *text, size_t len, bool tls,
                       struct buf *why)
{
    static const char plain[] = "http://";
    static const char secure[] = "https://";
    struct server *server = &servers->list[servers->count];
    struct address address;

    if (servers->count == SERVERS_MAX) {
        buf_printf(why, "server: more than %d addresses", SERVERS_MAX);
        return ERR_INVALID;
    }
    *server = (struct server){.tls = tls};
    if (len > sizeof secure - 1 && memcmp(text, secure, sizeof secure - 1) == 0) {
        server->tls = true;
        text += sizeof secure - 1;
        len -= sizeof secure - 1;
    } else if (len > sizeof plain - 1 && memcmp(text, plain, sizeof plain - 1) == 0) {
        server->tls = false;
        text += sizeof plain - 1;
        len -= sizeof plain - 1;
    }
    len -= len > 0 && text[len - 1] == '/' ? 1 : 0;
    if (len < sizeof server->address) {
        memcpy(server->address, text, len);
    }
    if (len >= sizeof server->address || strpbrk(server->address, "@/?#% \\") != NULL ||
        address_split(server->address, &address) != 0) {
        buf_printf(why, "server: \"%.*s\" is not HOST:PORT (an IPv6 address stands in brackets)",
                   (int)(len < 200 ? len : 200), text);
        return ERR_INVALID;
    }
    servers->count++;
    return 0;
}

int servers_parse(struct servers *servers, const struct settings *settings, struct buf *why)
{
    const char *text = settings->values[SETTING_SERVER];
    bool tls = settings->values[SETTING_CA] != NULL || settings->values[SETTING_CERT] != NULL;

    *servers = (struct servers){0};
    for (;;) {
        size_t len = strcspn(text, ",");

        if (servers_add(servers, text, len, tls, why) != 0) {
            return ERR_INVALID;
        }
        if (text[len] == '\0') {
            return 0;
        }
        text += len + 1;
    }
}

enum door servers_door(const char *target)
{
    static const char *const of_ids[] = {"/api/segment/", "/api/snowflake/", "/decodeSnowflakeId"};

    for (size_t i = 0; i < sizeof of_ids / sizeof of_ids[0]; i++) {
        if (strncmp(target, of_ids[i], strlen(of_ids[i])) == 0) {
            return DOOR_OF_IDS;
        }
    }
    return DOOR_OF_ADMIN;
}

const char *server_address(const struct server *server, enum door door)
{
    if (!server->is_not[door]) {
        return server->address;
    }
    return server->other[door][0] != '\0' ? server->other[door] : NULL;
}

bool server_learn(struct server *server, enum door door, const char *message)
{
    const char *text = message != NULL ? strstr(message, BETWEEN_DOORS) : NULL;
    bool first = !server->is_not[door];
    struct address asked;
    struct address told;

    server->is_not[door] = true;
    server->other[door][0] = '\0';
    text = text != NULL ? text + strlen(BETWEEN_DOORS) : "";
    if (!first || strpbrk(text, "@/?#% \\") != NULL || address_split(text, &told) != 0 ||
        strlen(text) >= sizeof server->other[door]) {
        return false;
    }
    ASSERT(address_split(server->address, &asked) == 0);
    if (address_is_wildcard(text)) { /* which is reached at the host that was asked */
        (void)snprintf(server->other[door], sizeof server->other[door],
                       strchr(asked.host, ':') != NULL ? "[%s]:%s" : "%s:%s", asked.host,
                       told.port);
        return true;
    }
    if (address_is_loopback(text) && !address_is_loopback(server->address)) {
        (void)snprintf(server->elsewhere[door], sizeof server->elsewhere[door],
                       "its other door, %s, is for that machine alone: run leafctl there", text);
        return false;
    }
    memcpy(server->other[door], text, strlen(text) + 1);
    return true;
}

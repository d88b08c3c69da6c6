/*
 * proxy.c - see proxy.h. Thread: pure functions, any.
 */
#include "http/server/proxy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/proto/text.h"
#include "src/base/assert.h"

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"
#define SIGNATURE_BYTES 12
/* No request of HTTP or RESP begins with this many of its bytes. */
#define SIGNATURE_FOREIGN 5
#define LINE_BEGIN "PROXY "

/* Of version 2: signature, version and command, family and transport, two bytes of length. */
#define V2_HEAD_BYTES 16
#define V2_VERSION 0x20
#define V2_LOCAL 0x0
#define V2_PROXY 0x1
#define V2_TCP4 0x11
#define V2_TCP6 0x21
#define V2_TCP4_BYTES 12 /* two addresses, two ports */
#define V2_TCP6_BYTES 36
#define V2_KEPT_BYTES (V2_HEAD_BYTES + V2_TCP6_BYTES)

/* --- version 1 --- */

/* One more byte has come. */
static enum proxy_step line_step(struct proxy_header *header)
{
    char *line = (char *)header->bytes;
    char family[sizeof "UNKNOWN" + 1]; /* a longer word is none of those known */
    char from[INET6_ADDRSTRLEN];
    char to[INET6_ADDRSTRLEN];
    char ports[2][6];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct in6_addr unused;
    unsigned long port;
    bool is_v4;
    int end = 0;
    int words;

    if (header->len <= strlen(LINE_BEGIN)) {
        return memcmp(line, LINE_BEGIN, header->len) == 0 ? PROXY_MORE : PROXY_BAD;
    }
    if (line[header->len - 1] != '\n') {
        return header->len < PROXY_LINE_BYTES ? PROXY_MORE : PROXY_BAD;
    }
    line[header->len - 1] = '\0';
    if (line[header->len - 2] != '\r' || strlen(line) != header->len - 1) {
        return PROXY_BAD;
    }
    line[header->len - 2] = '\0';
    /* One blank each: one in the format itself would stand for any number. */
    words = sscanf(line, "PROXY%*1[ ]%8[^ ]%*1[ ]%45[^ ]%*1[ ]%45[^ ]%*1[ ]%5[0-9]%*1[ ]%5[0-9]%n",
                   family, from, to, ports[0], ports[1], &end);
    if (words >= 1 && strcmp(family, "UNKNOWN") == 0) { /* whatever follows */
        return PROXY_DONE;
    }
    if (words != 5 || line[end] != '\0') {
        return PROXY_BAD;
    }
    is_v4 = strcmp(family, "TCP4") == 0;
    port = strtoul(ports[0], NULL, 10);
    if ((!is_v4 && strcmp(family, "TCP6") != 0) ||
        inet_pton(is_v4 ? AF_INET : AF_INET6, from,
                  is_v4 ? (void *)&v4.sin_addr : (void *)&v6.sin6_addr) != 1 ||
        inet_pton(is_v4 ? AF_INET : AF_INET6, to, &unused) != 1 || port > UINT16_MAX ||
        strtoul(ports[1], NULL, 10) > UINT16_MAX) {
        return PROXY_BAD;
    }
    v4.sin_port = htons((uint16_t)port);
    v6.sin6_port = v4.sin_port;
    if (is_v4) {
        header->client.v4 = v4;
    } else {
        header->client.v6 = v6;
    }
    return PROXY_DONE;
}

/* --- version 2 --- */

/* Does the header carry the client's address? Addresses of other families are skipped with the
 * rest. */
static bool has_address(const struct proxy_header *header)
{
    return header->bytes[12] == (V2_VERSION | V2_PROXY) &&
           (header->bytes[13] == V2_TCP4 || header->bytes[13] == V2_TCP6);
}

/* One more byte of the first V2_KEPT_BYTES has come. */
static enum proxy_step binary_step(struct proxy_header *header)
{
    const uint8_t *bytes = header->bytes;
    const uint8_t *at = bytes + V2_HEAD_BYTES;
    uint32_t addresses;

    if (header->len <= SIGNATURE_BYTES) {
        return memcmp(bytes, SIGNATURE, header->len) == 0 ? PROXY_MORE : PROXY_BAD;
    }
    if (bytes[12] != (V2_VERSION | V2_LOCAL) && bytes[12] != (V2_VERSION | V2_PROXY)) {
        return PROXY_BAD;
    }
    if (header->len == V2_HEAD_BYTES) {
        addresses = bytes[13] == V2_TCP4 ? V2_TCP4_BYTES : V2_TCP6_BYTES;
        header->whole = V2_HEAD_BYTES + ((uint32_t)bytes[14] << 8 | bytes[15]);
        if (has_address(header) && header->whole < V2_HEAD_BYTES + addresses) {
            return PROXY_BAD;
        }
    }
    if (header->whole == 0 || header->len < header->whole) {
        return PROXY_MORE;
    }
    if (has_address(header) && bytes[13] == V2_TCP4) {
        header->client.v4 = (struct sockaddr_in){.sin_family = AF_INET};
        memcpy(&header->client.v4.sin_addr, at, 4);
        memcpy(&header->client.v4.sin_port, at + 8, 2);
    } else if (has_address(header)) {
        header->client.v6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
        memcpy(&header->client.v6.sin6_addr, at, 16);
        memcpy(&header->client.v6.sin6_port, at + 32, 2);
    }
    return PROXY_DONE;
}

/* --- both --- */

enum proxy_step proxy_take(struct proxy_header *header, const uint8_t *data, size_t len,
                           size_t *ret_used)
{
    enum proxy_step step = PROXY_MORE;
    size_t used = 0;

    ASSERT(len > 0);
    while (used < len && step == PROXY_MORE) {
        if (header->whole > 0 && header->len >= V2_KEPT_BYTES) { /* the rest is skipped at once */
            size_t left = header->whole - header->len - 1;
            size_t skip = len - used - 1 < left ? len - used - 1 : left;

            used += skip + 1;
            header->len += (uint32_t)skip + 1;
            step = header->len == header->whole ? binary_step(header) : PROXY_MORE;
        } else {
            ASSERT(header->len < sizeof header->bytes);
            header->bytes[header->len++] = data[used++];
            step = header->bytes[0] == SIGNATURE[0] ? binary_step(header) : line_step(header);
        }
    }
    *ret_used = used;
    return step;
}

bool is_proxy_header(const void *data, size_t len)
{
    return (len >= SIGNATURE_FOREIGN && memcmp(data, SIGNATURE, SIGNATURE_FOREIGN) == 0) ||
           (len >= strlen(LINE_BEGIN) && memcmp(data, LINE_BEGIN, strlen(LINE_BEGIN)) == 0);
}

/* --- which addresses are proxies --- */

struct network {
    struct in6_addr address; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;           /* of 128 */
};

static void map_v4(const struct in_addr *v4, struct in6_addr *out)
{
    memset(out, 0, sizeof *out);
    memset(&out->s6_addr[10], 0xff, 2);
    memcpy(&out->s6_addr[12], v4, sizeof *v4);
}

/* "10.0.0.7", "10.1.0.0/16", "2001:db8::/32", without blanks. The bits after the prefix must be 0;
 * others are probably a mistake. */
static bool read_network(const char *text, size_t len, struct network *ret_network)
{
    char address[INET6_ADDRSTRLEN + 5];
    char *slash;
    struct in_addr v4;
    struct network host = {.bits = 128};
    unsigned most = 128;

    if (len == 0 || len >= sizeof address) {
        return false;
    }
    memcpy(address, text, len);
    address[len] = '\0';
    slash = strchr(address, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (inet_pton(AF_INET, address, &v4) == 1) {
        map_v4(&v4, &host.address);
        most = 32;
    } else if (inet_pton(AF_INET6, address, &host.address) != 1) {
        return false;
    }
    *ret_network = host;
    if (slash != NULL) {
        size_t digits = strspn(slash + 1, "0123456789");
        unsigned bits = 0;

        if (digits < 1 || digits > 3 || slash[1 + digits] != '\0') {
            return false;
        }
        for (size_t i = 1; i <= digits; i++) {
            bits = bits * 10 + (unsigned)(slash[i] - '0');
        }
        if (bits > most) {
            return false;
        }
        ret_network->bits = 128 - most + bits;
        for (unsigned bit = ret_network->bits; bit < 128; bit++) {
            if ((host.address.s6_addr[bit / 8] >> (7 - bit % 8) & 1) != 0) {
                return false;
            }
        }
    }
    return true;
}

bool proxy_network(const char *text, size_t len, char ret_text[PROXY_NETWORK_BYTES])
{
    struct network network;
    unsigned most = 128;

    if (!read_network(text, len, &network)) {
        return false;
    }
    if (IN6_IS_ADDR_V4MAPPED(&network.address) && network.bits >= 96) {
        most = 32;
        network.bits -= 96;
        ASSERT(inet_ntop(AF_INET, &network.address.s6_addr[12], ret_text, PROXY_NETWORK_BYTES));
    } else {
        ASSERT(inet_ntop(AF_INET6, &network.address, ret_text, PROXY_NETWORK_BYTES));
    }
    if (network.bits < most) {
        (void)snprintf(ret_text + strlen(ret_text), PROXY_NETWORK_BYTES - strlen(ret_text), "/%u",
                       network.bits);
    }
    return true;
}

bool proxy_is_list(const char *list, const char **ret_item)
{
    const char *end = list + strlen(list);
    struct network network;
    size_t len;

    while (text_next(&list, end, ',', ret_item, &len)) {
        if (!read_network(*ret_item, len, &network) || list == end) { /* nothing after a comma */
            return false;
        }
    }
    return true;
}

bool proxy_is_named(const char *list, const struct sockaddr *address)
{
    const char *end = list + strlen(list);
    struct in6_addr wanted;
    struct network network;
    const char *item;
    size_t len;

    if (address->sa_family == AF_INET) {
        map_v4(&((const struct sockaddr_in *)(const void *)address)->sin_addr, &wanted);
    } else if (address->sa_family == AF_INET6) {
        wanted = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    } else {
        return false;
    }
    while (text_next(&list, end, ',', &item, &len) && read_network(item, len, &network)) {
        unsigned whole = network.bits / 8;
        unsigned rest = 8 - network.bits % 8;

        if (memcmp(&wanted, &network.address, whole) == 0 &&
            (rest == 8 ||
             wanted.s6_addr[whole] >> rest == network.address.s6_addr[whole] >> rest)) {
            return true;
        }
    }
    return false;
}

/*
 * load_options.c - see load_options.h. Thread: the load's.
 */
#include "scripts/bench/load_options.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/assert.h"

#define EXIT_USAGE 2

static const char help[] =
    "load - an HTTP load that checks every reply; writes a report as JSON\n"
    "\n"
    "  load --address HOST:PORT[,HOST:PORT...] [OPTION...] PATH\n"
    "\n"
    "  --connections N     64; spread over the addresses in turn\n"
    "  --pipeline D        1; so many requests at once, the next when all are answered\n"
    "  --seconds S         10\n"
    "  --requests N        end after so many\n"
    "  --rate R            so many are due each second; latency counts from when one was due\n"
    "  --grace S           15; how long to wait for what is not answered at the end\n"
    "  --post BODY, --put BODY, --header LINE\n"
    "  --targets FILE      lines PATH or PATH<tab>BODY, taken in turn instead of PATH\n"
    "  --protocol resp     PATH is a Redis command\n"
    "  --expect WHAT       ids[:N] (default; N in each reply), ranges[:N], field:NAME (an id in\n"
    "                      JSON), text:TEXT, any\n"
    "  --strict            each id is greater than all acknowledged before it was asked for\n"
    "  --group-by-target   ids of different targets are different ids\n"
    "  --seen FILE         the ids of earlier loads are in it, and these are added\n"
    "  --timeline          good, bad and longest latency (us) of each 100 ms\n"
    "\n"
    "Exit code 0: all replies were good; 1: some were not; 2: the load could not run.\n";

enum {
    OPTION_ADDRESS = 1,
    OPTION_CONNECTIONS,
    OPTION_PIPELINE,
    OPTION_SECONDS,
    OPTION_REQUESTS,
    OPTION_RATE,
    OPTION_GRACE,
    OPTION_POST,
    OPTION_PUT,
    OPTION_HEADER,
    OPTION_TARGETS,
    OPTION_PROTOCOL,
    OPTION_EXPECT,
    OPTION_STRICT,
    OPTION_GROUP,
    OPTION_SEEN,
    OPTION_TIMELINE,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"address", required_argument, NULL, OPTION_ADDRESS},
    {"connections", required_argument, NULL, OPTION_CONNECTIONS},
    {"pipeline", required_argument, NULL, OPTION_PIPELINE},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"requests", required_argument, NULL, OPTION_REQUESTS},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"grace", required_argument, NULL, OPTION_GRACE},
    {"post", required_argument, NULL, OPTION_POST},
    {"put", required_argument, NULL, OPTION_PUT},
    {"header", required_argument, NULL, OPTION_HEADER},
    {"targets", required_argument, NULL, OPTION_TARGETS},
    {"protocol", required_argument, NULL, OPTION_PROTOCOL},
    {"expect", required_argument, NULL, OPTION_EXPECT},
    {"strict", no_argument, NULL, OPTION_STRICT},
    {"group-by-target", no_argument, NULL, OPTION_GROUP},
    {"seen", required_argument, NULL, OPTION_SEEN},
    {"timeline", no_argument, NULL, OPTION_TIMELINE},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

/* A number of min..max; anything else ends the process. */
static double read_number(const char *name, const char *text, double min, double max)
{
    char *end;
    double value;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= min && value <= max)) {
        errx(EXIT_USAGE, "--%s %s: must be %g to %g", name, text, min, max);
    }
    return value;
}

static void read_address(struct load_options *options, const char *text, size_t len)
{
    struct sockaddr_in *address = &options->addresses[options->address_count];
    char host[64];
    char *colon;

    if (options->address_count == LOAD_ADDRESSES_MAX) {
        errx(EXIT_USAGE, "--address: more than %d", LOAD_ADDRESSES_MAX);
    }
    snprintf(host, sizeof host, "%.*s", (int)len, text);
    colon = strrchr(host, ':');
    if (colon == NULL) {
        errx(EXIT_USAGE, "--address %s: not HOST:PORT", host);
    }
    *colon = '\0';
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)read_number("address", colon + 1, 1, UINT16_MAX));
    if (inet_pton(AF_INET, host, &address->sin_addr) != 1) {
        errx(EXIT_USAGE, "--address %s: not an IPv4 address", host);
    }
    options->address_count++;
}

static void read_addresses(struct load_options *options, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, ",");

        read_address(options, text, len);
        text += len + (text[len] == ',');
    }
}

/* Is the text `name`, or `name:` with more, which is *ret_rest then (else NULL)? */
static bool kind_is(const char *text, const char *name, const char **ret_rest)
{
    size_t len = strlen(name);

    if (strncmp(text, name, len) != 0 || (text[len] != '\0' && text[len] != ':')) {
        return false;
    }
    *ret_rest = text[len] == ':' ? text + len + 1 : NULL;
    return true;
}

static void read_expect(struct verify *verify, const char *text)
{
    const char *rest;

    if (kind_is(text, "ids", &rest)) {
        verify->kind = VERIFY_IDS;
    } else if (kind_is(text, "ranges", &rest)) {
        verify->kind = VERIFY_RANGES;
    } else if (kind_is(text, "field", &rest) && rest != NULL && *rest) {
        verify->kind = VERIFY_FIELD;
        verify->text = rest;
        return;
    } else if (kind_is(text, "text", &rest) && rest != NULL) {
        verify->kind = VERIFY_TEXT;
        verify->text = rest;
        return;
    } else if (kind_is(text, "any", &rest) && rest == NULL) {
        verify->kind = VERIFY_ANY;
        return;
    } else {
        errx(EXIT_USAGE, "--expect %s: ids[:N], ranges[:N], field:NAME, text:TEXT or any", text);
    }
    verify->count = rest ? (uint64_t)read_number("expect", rest, 1, 10000000) : 0;
}

static void read_header(struct load_options *options, const char *line)
{
    if (strchr(line, ':') == NULL || strpbrk(line, "\r\n") != NULL) {
        errx(EXIT_USAGE, "--header %s: not one line NAME: VALUE", line);
    }
    buf_printf(&options->headers, "%s\r\n", line);
}

static void read_protocol(struct load_options *options, const char *name)
{
    if (strcmp(name, "http") != 0 && strcmp(name, "resp") != 0) {
        errx(EXIT_USAGE, "--protocol %s: http or resp", name);
    }
    options->protocol = strcmp(name, "resp") == 0 ? REPLY_RESP : REPLY_HTTP;
}

/* What shapes the requests. False: it is another option. */
static bool read_request_option(struct load_options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_POST:
    case OPTION_PUT:
        options->method = option == OPTION_PUT ? "PUT" : "POST";
        options->body = value;
        return true;
    case OPTION_HEADER:
        read_header(options, value);
        return true;
    case OPTION_TARGETS:
        options->targets_file = value;
        return true;
    case OPTION_PROTOCOL:
        read_protocol(options, value);
        return true;
    case OPTION_EXPECT:
        read_expect(&options->verify, value);
        return true;
    case OPTION_STRICT:
        options->verify.strict = true;
        return true;
    case OPTION_GROUP:
        options->group_by_target = true;
        return true;
    case OPTION_SEEN:
        options->seen_file = value;
        return true;
    case OPTION_TIMELINE:
        options->timeline = true;
        return true;
    default:
        return false;
    }
}

static void read_option(struct load_options *options, int option, const char *value)
{
    switch (option) {
    case OPTION_ADDRESS:
        read_addresses(options, value);
        return;
    case OPTION_CONNECTIONS:
        options->connections = (size_t)read_number("connections", value, 1, LOAD_CONNECTIONS_MAX);
        return;
    case OPTION_PIPELINE:
        options->pipeline = (size_t)read_number("pipeline", value, 1, LOAD_PIPELINE_MAX);
        return;
    case OPTION_SECONDS:
        options->seconds = read_number("seconds", value, 0.01, LOAD_SECONDS_MAX);
        return;
    case OPTION_REQUESTS:
        options->requests = (uint64_t)read_number("requests", value, 1, 1e12);
        return;
    case OPTION_RATE:
        options->rate = read_number("rate", value, 0.1, 1e7);
        return;
    case OPTION_GRACE:
        options->grace_s = read_number("grace", value, 0, LOAD_SECONDS_MAX);
        return;
    case OPTION_HELP:
        fputs(help, stdout);
        exit(0);
    default:
        fputs(help, stderr);
        exit(EXIT_USAGE);
    }
}

void load_options_read(struct load_options *options, int argc, char **argv)
{
    int option;

    *options = (struct load_options){
        .connections = 64,
        .pipeline = 1,
        .grace_s = 15,
        .method = "GET",
        .verify = {.kind = VERIFY_IDS},
    };
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        if (!read_request_option(options, option, optarg)) {
            read_option(options, option, optarg);
        }
    }
    if (argc - optind != (options->targets_file ? 0 : 1)) {
        errx(EXIT_USAGE, "one PATH is wanted, or --targets; --help tells more");
    }
    options->path = options->targets_file ? NULL : argv[optind];
    if (options->address_count == 0) {
        errx(EXIT_USAGE, "--address is missing");
    }
    if (options->rate > 0 && options->pipeline > 1) {
        errx(EXIT_USAGE, "--rate and --pipeline do not go together");
    }
    if (options->seconds == 0 && options->requests == 0) {
        options->seconds = 10;
    }
    if (options->rate > 0 && options->seconds == 0) {
        options->seconds = (double)options->requests / options->rate;
    }
}

/* Append one request. */
static void target_put(struct load_targets *targets, const struct load_options *options,
                       const char *path, const char *body)
{
    struct buf *out = &targets->bytes;

    if (options->protocol == REPLY_RESP) {
        reply_put_resp(out, path);
    } else {
        buf_printf(out, "%s %s HTTP/1.1\r\nHost: bench\r\n", options->method, path);
        buf_put(out, options->headers.data, options->headers.len);
        if (body != NULL) {
            buf_printf(out, "Content-Length: %zu\r\n", strlen(body));
        }
        buf_put(out, "\r\n", 2);
        buf_put(out, body, body ? strlen(body) : 0);
    }
    targets->begins = reallocarray(targets->begins, targets->count + 2, sizeof *targets->begins);
    ASSERT(targets->begins != NULL);
    targets->begins[0] = 0;
    targets->begins[++targets->count] = out->len;
}

void load_targets_make(struct load_targets *targets, const struct load_options *options)
{
    FILE *file;
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len;

    *targets = (struct load_targets){0};
    if (options->targets_file == NULL) {
        target_put(targets, options, options->path, options->body);
        return;
    }
    file = fopen(options->targets_file, "r");
    if (file == NULL) {
        err(EXIT_USAGE, "%s", options->targets_file);
    }
    while ((len = getline(&line, &capacity, file)) > 0) {
        char *tab = strchr(line, '\t');

        line[len - (line[len - 1] == '\n')] = '\0';
        if (tab != NULL) {
            *tab = '\0';
        }
        if (*line == '\0') {
            errx(EXIT_USAGE, "%s: line %zu is empty", options->targets_file, targets->count + 1);
        }
        target_put(targets, options, line, tab ? tab + 1 : options->body);
    }
    free(line);
    fclose(file);
    if (targets->count == 0) {
        errx(EXIT_USAGE, "%s is empty", options->targets_file);
    }
}

void load_options_free(struct load_options *options)
{
    buf_free(&options->headers);
}

void load_targets_free(struct load_targets *targets)
{
    buf_free(&targets->bytes);
    free(targets->begins);
}

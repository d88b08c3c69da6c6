/*
 * load_options.c - see load_options.h. Thread: the load's.
 */
#include "scripts/bench/load_options.h"

#include <err.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/address.h"
#include "src/base/assert.h"

static const char help[] =
    "load - a load that checks every reply; writes a report as JSON\n"
    "\n"
    "  load --address HOST:PORT[,HOST:PORT...] [OPTION...] PATH\n"
    "\n"
    "  --connections N     64; spread over the addresses in turn\n"
    "  --pipeline D        1; so many requests at once, the next when all are answered\n"
    "  --seconds S         10\n"
    "  --requests N        end after so many\n"
    "  --rate R            so many are due each second; latency counts from when one was due\n"
    "  --grace S           15; how long to wait for what is not answered at the end\n"
    "  --post BODY         in place of GET\n"
    "  --targets FILE      lines PATH or PATH<tab>BODY, taken in turn instead of PATH\n"
    "  --protocol WHAT     http; resp: PATH is a Redis command; mariadb, mariadb-prepared: it is\n"
    "                      an SQL statement that sets LAST_INSERT_ID()\n"
    "  --expect WHAT       ids[:N] (default; N in each reply), ranges[:N], field:NAME (an id in\n"
    "                      JSON), text:TEXT, any\n"
    "  --strict            each id is greater than all acknowledged before it was asked for\n"
    "  --group-by-target   ids of different targets are different ids\n"
    "\n"
    "Exit code 0: all replies were good; 1: some were not; 2: the load could not run.\n";

static const struct option long_options[] = {
    {"address", required_argument, NULL, 'a'},
    {"connections", required_argument, NULL, 'c'},
    {"pipeline", required_argument, NULL, 'd'},
    {"seconds", required_argument, NULL, 's'},
    {"requests", required_argument, NULL, 'n'},
    {"rate", required_argument, NULL, 'r'},
    {"grace", required_argument, NULL, 'g'},
    {"post", required_argument, NULL, 'b'},
    {"targets", required_argument, NULL, 't'},
    {"protocol", required_argument, NULL, 'p'},
    {"expect", required_argument, NULL, 'e'},
    {"strict", no_argument, NULL, 'o'},
    {"group-by-target", no_argument, NULL, 'G'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* A number of min..max; anything else ends the process. */
static double read_number(const char *name, const char *text, double min, double max)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || !(value >= min && value <= max)) {
        errx(LOAD_EXIT_CANNOT_RUN, "--%s %s: must be %g to %g", name, text, min, max);
    }
    return value;
}

static uint64_t read_count(const char *name, const char *text, double max)
{
    return (uint64_t)read_number(name, text, 1, max);
}

static void read_addresses(struct load_options *options, char *text)
{
    char *one;

    while ((one = strsep(&text, ",")) != NULL) {
        if (options->address_count == LOAD_ADDRESSES_MAX) {
            errx(LOAD_EXIT_CANNOT_RUN, "--address: more than %d", LOAD_ADDRESSES_MAX);
        }
        if (address_resolve(one, &options->addresses[options->address_count++]) != 0) {
            errx(LOAD_EXIT_CANNOT_RUN, "--address %s: not HOST:PORT", one);
        }
    }
}

/* One of the names; anything else ends the process. */
static size_t read_name(const char *option, const char *text, size_t len, const char *const *names)
{
    size_t i = 0;

    while (names[i] != NULL && (strlen(names[i]) != len || memcmp(names[i], text, len) != 0)) {
        i++;
    }
    if (names[i] == NULL) {
        errx(LOAD_EXIT_CANNOT_RUN, "--%s %s: there is no such thing; see --help", option, text);
    }
    return i;
}

static void read_expect(struct verify *verify, const char *text)
{
    static const char *const kinds[] = {"any", "text", "ids", "ranges", "field", NULL};
    size_t len = strcspn(text, ":");
    const char *rest = text[len] == ':' ? text + len + 1 : NULL;

    verify->kind = (enum verify_kind)read_name("expect", text, len, kinds);
    verify->text = rest ? rest : "";
    if (rest && (verify->kind == VERIFY_IDS || verify->kind == VERIFY_RANGES)) {
        verify->count = read_count("expect", rest, 1e7);
    }
}

static void read_protocol(struct load_options *options, const char *name)
{
    static const char *const names[] = {"http", "resp", "mariadb", "mariadb-prepared", NULL};

    options->protocol = (enum protocol)read_name("protocol", name, strlen(name), names);
}

static void read_option(struct load_options *options, int option, char *value)
{
    switch (option) {
    case 'a':
        read_addresses(options, value);
        break;
    case 'c':
        options->connections = read_count("connections", value, 20000);
        break;
    case 'd':
        options->pipeline = read_count("pipeline", value, 1024);
        break;
    case 's':
        options->seconds = read_number("seconds", value, 0.01, 86400);
        break;
    case 'n':
        options->requests = read_count("requests", value, 1e12);
        break;
    case 'r':
        options->rate = read_number("rate", value, 0.1, 1e7);
        break;
    case 'g':
        options->grace_s = read_number("grace", value, 0, 86400);
        break;
    case 'b':
        options->body = value;
        break;
    case 't':
        options->targets_file = value;
        break;
    case 'p':
        read_protocol(options, value);
        break;
    case 'e':
        read_expect(&options->verify, value);
        break;
    case 'o':
        options->verify.strict = true;
        break;
    case 'G':
        options->group_by_target = true;
        break;
    default:
        fputs(help, option == 'h' ? stdout : stderr);
        exit(option == 'h' ? 0 : LOAD_EXIT_CANNOT_RUN);
    }
}

void load_options_read(struct load_options *options, int argc, char **argv)
{
    int option;

    *options = (struct load_options){
        .connections = 64,
        .pipeline = 1,
        .seconds = 10,
        .grace_s = 15,
        .verify = {.kind = VERIFY_IDS},
    };
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        read_option(options, option, optarg);
    }
    if (argc - optind != (options->targets_file ? 0 : 1)) {
        errx(LOAD_EXIT_CANNOT_RUN, "one PATH is wanted, or --targets; --help tells more");
    }
    options->target = options->targets_file ? NULL : argv[optind];
    if (options->address_count == 0) {
        errx(LOAD_EXIT_CANNOT_RUN, "--address is missing");
    }
    if (options->protocol == PROTOCOL_MARIADB_PREPARED && options->target == NULL) {
        errx(LOAD_EXIT_CANNOT_RUN, "one statement is prepared, and not those of --targets");
    }
    if (options->rate > 0 && options->pipeline > 1) {
        errx(LOAD_EXIT_CANNOT_RUN, "--rate and --pipeline do not go together");
    }
}

/* Append one request. */
static void target_put(struct load_targets *targets, const struct load_options *options,
                       const char *target, const char *body)
{
    protocol_put(options->protocol, &targets->bytes, body != NULL ? "POST" : "GET", target, body);
    targets->begins =
        MUST_HAVE(reallocarray(targets->begins, targets->count + 2, sizeof *targets->begins));
    targets->begins[0] = 0;
    targets->begins[++targets->count] = targets->bytes.len;
}

static void targets_read(struct load_targets *targets, const struct load_options *options,
                         FILE *file)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t len;

    while ((len = getline(&line, &capacity, file)) > 0) {
        char *tab = strchr(line, '\t');

        line[len - (line[len - 1] == '\n')] = '\0';
        if (tab != NULL) {
            *tab = '\0';
        }
        target_put(targets, options, line, tab ? tab + 1 : options->body);
    }
    free(line);
}

void load_targets_make(struct load_targets *targets, const struct load_options *options)
{
    FILE *file;

    *targets = (struct load_targets){0};
    if (options->targets_file == NULL) {
        target_put(targets, options, options->target, options->body);
        return;
    }
    file = fopen(options->targets_file, "r");
    if (file == NULL) {
        err(LOAD_EXIT_CANNOT_RUN, "%s", options->targets_file);
    }
    targets_read(targets, options, file);
    fclose(file);
    if (targets->count == 0) {
        errx(LOAD_EXIT_CANNOT_RUN, "%s is empty", options->targets_file);
    }
}

void load_targets_free(struct load_targets *targets)
{
    buf_free(&targets->bytes);
    free(targets->begins);
}

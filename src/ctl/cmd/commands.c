/*
 * commands.c - every command of leafctl: its words, its description, its options, and its request
 * or function. Help, completions, the manual page and the parser use this table.
 *
 * A shell's completion script (packaging/completions) asks leafctl itself (--complete) for the
 * words possible at the cursor. leafctl finds the words before the cursor that are no options or
 * values of options: the first is the family, the second is the name, if the family has names.
 * Thread: any.
 */
#include "src/ctl/cmd/command.h"

#include <string.h>

#define END                                                                                        \
    {                                                                                              \
        NULL, 0, NULL, NULL                                                                        \
    }

/* --- options --- */

static const struct option_about STATUS_OPTIONS[] = {
    {"watch", 'w', NULL, "show it again and again, until Ctrl-C"},
    {"every", 0, "SECONDS", "with --watch: how often (default 2)"},
    {"times", 0, "N", "with --watch: end after so many"},
    END,
};

static const struct option_about CHECK_OPTIONS[] = {
    {"all", 0, NULL, "also say what is as it should be"},
    END,
};

static const struct option_about TOP_OPTIONS[] = {
    {"limit", 'n', "N", "so many tags (default 20)"},
    {"every", 0, "SECONDS", "how often (default 2)"},
    {"times", 0, "N", "end after so many (default: never in a terminal, else 1)"},
    END,
};

static const struct option_about EVENTS_OPTIONS[] = {
    {"limit", 'n', "N", "the last so many (default 50)"},
    {"kind", 0, "KIND", "only this kind, such as election, member, level, alarm"},
    {"follow", 'f', NULL, "continue with new ones, until Ctrl-C"},
    {"times", 0, "N", "with --follow: end after so many looks"},
    END,
};

static const struct option_about AUDIT_OPTIONS[] = {
    {"limit", 'n', "N", "the last so many (default 50)"},
    {"refused", 0, NULL, "only what was refused"},
    {"changes", 0, NULL, "only what was not refused"},
    {"who", 0, "NAME", "only what this token, or address, asked"},
    {"follow", 'f', NULL, "continue with new ones, until Ctrl-C"},
    {"times", 0, "N", "with --follow: end after so many looks"},
    END,
};

static const struct option_about TAGS_LIST_OPTIONS[] = {
    {"after", 0, "TAG", "names after this one"},
    {"limit", 'n', "N", "so many tags at most (default: all)"},
    {"mode", 0, "MODE", "only tags that are trend, strict or monotonic"},
    {"nearly-used-up", 0, NULL, "only tags with less than 10 % left below their max"},
    {"csv", 0, NULL, "as CSV, with a line of titles"},
    END,
};

static const struct option_about TAGS_PUT_OPTIONS[] = {
    {"max-id", 0, "N", "the next id; all below it are in use elsewhere"},
    {"step", 0, "N", "the smallest segment, 1 to 1000000000"},
    {"max-step", 0, "N", "the largest segment"},
    {"max", 0, "N", "ids stay below it; none: no bound"},
    {"increment", 0, "N", "every N-th number is its, 1 to 1000000; 1: each"},
    {"offset", 0, "N", "0 to increment - 1"},
    {"cover-s", 0, "N", "each node's segments last N s at its present rate, up to 86400; 0: none"},
    {"mode", 0, "MODE", "trend, strict or monotonic"},
    {"description", 0, "TEXT", "up to 256 bytes"},
    {"shape", 0, "SHAPE", "of a new name: its ids are texts, such as 'INV-{id:6}{luhn}', for ever"},
    {"shape-key", 0, "N",
     "of a shape with {key}: the key of this number, the present or the next one"},
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    {"force", 0, NULL, "a max_id that is lower, or much higher, than it was; sent once"},
    END,
};

static const struct option_about TAGS_PAUSE_OPTIONS[] = {
    {"reason", 0, "TEXT", "that clients get with 423, up to 200 bytes"},
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    END,
};

static const struct option_about TAGS_DELETE_OPTIONS[] = {
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    END,
};

static const struct option_about NEXT_OPTIONS[] = {
    {"count", 'n', "N",
     "how many, 1 to 1000000000 (default 1); more than 100000 take more requests"},
    {"ranges", 0, NULL, "as lines FIRST LAST, and INCREMENT if above 1"},
    {"contiguous", 0, NULL, "all in one range, or none"},
    {"idempotency-key", 0, "KEY", "for a strict tag: the same key gives the same ids"},
    {"snowflake", 0, NULL, "snowflake ids; TAG is the key"},
    {"layout", 0, "NAME", "snowflake ids of this layout, one a line"},
    {"numbers", 0, NULL, "needed for a tag with a shape: its ids as numbers"},
    END,
};

static const struct option_about DECODE_OPTIONS[] = {
    {"layout", 0, "NAME", "by this layout, and not the cluster's own"},
    END,
};

static const struct option_about WORKERS_LIST_OPTIONS[] = {
    {"held", 0, NULL, "only those that are held now"},
    END,
};

static const struct option_about WORKERS_ACQUIRE_OPTIONS[] = {
    {"worker-id", 0, "ID", "this one, or none (default: any)"},
    {"layout", 0, "NAME", "worker ids of this layout, not of the cluster's own"},
    {"zone", 0, "NAME", "takes from the zone's pool"},
    {"address", 0, "TEXT", "shown in the list"},
    {"from-ms", 0, "MS", "no time up to this one is granted"},
    {"window-ms", 0, "MS", "for how long, 1000 to 86400000 (default 60000)"},
    {"force", 0, NULL, "the --worker-id that another client holds; needs the role admin"},
    END,
};

static const struct option_about WORKERS_RENEW_OPTIONS[] = {
    {"epoch", 0, "N", "of the acquire"},
    {"window-ms", 0, "MS", "for how long from now on, 1000 to 86400000 (default 60000)"},
    END,
};

static const struct option_about WORKERS_RELEASE_OPTIONS[] = {
    {"epoch", 0, "N", "of the acquire"},
    {"last-timestamp-ms", 0, "MS", "the highest time used, to be shown"},
    {"force", 0, NULL, "one that another client holds; needs the role admin"},
    END,
};

static const struct option_about CHANGE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"force", 0, NULL, "even if too few voters that are left can be reached; sent once"},
    END,
};

static const struct option_about PLACE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"force", 0, NULL, "even if no other node takes work; sent once"},
    END,
};

static const struct option_about MEMBERS_REMOVE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"yes", 0, NULL, "also a voter that is healthy, without asking"},
    {"force", 0, NULL, "even if too few voters that are left can be reached; sent once"},
    END,
};

static const struct option_about CLIENTS_CUT_OPTIONS[] = {
    {"for", 0, "TIME", "for how long, as 90s, 10m, 2h or 7d, which is the most; has to be given"},
    {"reason", 0, "TEXT", "that the client gets with 403, up to 200 bytes"},
    {"force", 0, NULL, "also the client that asks, or the last token with the role admin"},
    END,
};

static const struct option_about WAIT_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    END,
};

static const struct option_about BACKUP_OPTIONS[] = {
    {"local", 0, NULL, "what the node has, without asking the others: it may lack the newest"},
    END,
};

/* Options of all commands of `import`, and of those that can query a database. */
#define IMPORT_ANY                                                                                 \
    {"dry-run", 0, NULL, "check everything and print the plan, send nothing"},                     \
        {"print", 0, NULL,                                                                         \
         "print the tags as lines of JSON, as POST /api/tags takes them; send nothing"},           \
        {"skip-ahead", 0, NULL,                                                                    \
         "leave tags alone that are further in the cluster than in the rows"},                     \
    {                                                                                              \
        "force", 0, NULL, "take tags that need force; no client may use them meanwhile"            \
    }
#define IMPORT_FILES                                                                               \
    {"stopped", 0, NULL, "of a file: the old servers are stopped, which a file cannot show"},      \
        {"format", 0, "FORM",                                                                      \
         "sql, tsv, outfile, csv, csv-doubled, csv-backslash or json (default: found out)"},       \
    {                                                                                              \
        "columns", 0, "NAMES", "the order of columns that the file does not name, between commas"  \
    }
#define IMPORT_LIVE                                                                                \
    {"mysql", 0, "ADDRESS", "ask MariaDB or MySQL: [USER@]HOST[:PORT]/DATABASE"},                  \
        {"settle", 0, "SECONDS", "between two looks at a database (default 10)"},                  \
        {"ahead", 0, "N",                                                                          \
         "the old system runs on: begin N ids above it; auto: a hundred steps, at least "          \
         "10000000"},                                                                              \
        {"guard", 0, NULL, "with --ahead: install the guard that keeps the old system below"},     \
        {"finish", 0, NULL, "after --ahead: is the old system quiet, and all of it here?"},        \
    {                                                                                              \
        "remove-guard", 0, NULL, "with --finish: if it is, take the guard away"                    \
    }

static const struct option_about IMPORT_OPTIONS[] = {
    IMPORT_ANY,
    IMPORT_FILES,
    IMPORT_LIVE,
    {"table", 0, "NAME", "the table's name"},
    {"every-number", 0, NULL, "rows with a delta: all databases are in the file"},
    {"keep-increment", 0, NULL, "rows with a delta: the tag has the same numbers (level 3)"},
    END,
};

static const struct option_about IMPORT_SQL_OPTIONS[] = {
    IMPORT_ANY,
    IMPORT_LIVE,
    {"postgres", 0, "ADDRESS", "ask PostgreSQL: the same"},
    {"redis", 0, "ADDRESS", "ask Redis: [USER@]HOST[:PORT][/NUMBER]"},
    {"table", 0, "NAME", "only this table or sequence (default: all that count)"},
    {"query", 0, "SELECT", "rows with the columns tag, max_id (the next id) and maybe step"},
    {"pattern", 0, "PATTERN", "of Redis's keys, as KEYS takes it"},
    {"every-number", 0, NULL,
     "sequences with an increment above 1: nothing else hands out the rest"},
    {"keep-increment", 0, NULL, "the same: the tag has the same numbers (level 3)"},
    END,
};

static const struct option_about IMPORT_CSV_OPTIONS[] = {
    IMPORT_ANY,
    IMPORT_FILES,
    END,
};

static const struct option_about TOKEN_NEW_OPTIONS[] = {
    {"name", 0, "NAME", "what it is for (default: made of its hash)"},
    {"roles", 0, "ROLE,...",
     "ids, read, tags, workers, admin, metrics, health, or all (default ids)"},
    {"prefix", 0, "PREFIX,...", "what the names of its tags begin with"},
    {"out", 'o', "FILE", "write the token into a new file of mode 0600, instead of showing it"},
    END,
};

/* --- commands --- */

/* Operands of requests. */
#define TAKES(...) .takes = {__VA_ARGS__}
#define TAG "TAG", NULL, PART_TAG, 0, 0
#define MEMBER "ID", "id", PART_NUMBER, 1, LIMIT_NODE_ID
#define WORKER "ID", NULL, PART_NUMBER, 0, LIMIT_WORKER_IDS - 1
#define PEER "HOST:PORT", "peer_address", PART_ADDRESS, 0, 0
#define WHO "ADDRESS", NULL, PART_TEXT, 0, 0

static const struct grid_column LAYOUT_COLUMNS[] = {{"name", "{name}"},
                                                    {">unit", "{unit_ms:n}"},
                                                    {">time", "{time_bits:n}"},
                                                    {">worker", "{worker_bits:n}"},
                                                    {">sequence", "{sequence_bits:n}"},
                                                    {"order", "{order}"},
                                                    {"epoch", "{epoch_ms:date}"},
                                                    {"state", "{deleted:!deleted}"},
                                                    {NULL, NULL}};

static const struct grid_column CUT_COLUMNS[] = {{"client", "{who}"},
                                                 {"cut until", "{until}"},
                                                 {"by", "{by}"},
                                                 {"reason", "{reason}"},
                                                 {NULL, NULL}};

const struct command COMMANDS[] = {
    {"status", NULL, NULL,
     "the cluster on one screen: members, leader, quorum, lag, clocks, disk, alarms",
     "It is what one node sees.", STATUS_OPTIONS, .run = run_status},
    {"check", NULL, NULL,
     "is the cluster healthy and well set up? reasons, what to do, and an exit code",
     "It asks every server that --server names, so name all nodes. Exit code 0: nothing to "
     "say; 1: warnings; 2: something is critical.",
     CHECK_OPTIONS, .run = run_check},
    {"top", NULL, "[PREFIX]",
     "the busiest tags: rates, and how long the ids that nodes hold will last",
     "A node knows only its own rates: name all nodes with --server.", TOP_OPTIONS, .run = run_top},
    {"events", NULL, NULL, "what happened: elections, members, links, level, alarms",
     "A node knows what it saw since its start: name all nodes with --server.", EVENTS_OPTIONS,
     .run = run_history},
    {"audit", NULL, NULL, "what was changed and what was refused, and by whom",
     "A node keeps what came to it since its start: name all nodes with --server.", AUDIT_OPTIONS,
     .run = run_history},
    {"tags", "list", "[PREFIX]", "tags, in the order of their names",
     "With --json each page of up to 1000 is a line, as GET /api/tags gives it; POST "
     "/api/tags of another cluster takes them as they are.",
     TAGS_LIST_OPTIONS, .run = run_tags_list, .is_default = true},
    {"tags", "get", "TAG", "one tag", NULL, NULL, .path = "/api/tags/*", TAKES({TAG}),
     .put = put_tag},
    {"tags", "put", "TAG", "make a tag, or change it", "What no option names stays as it is.",
     TAGS_PUT_OPTIONS, .method = "PUT", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag,
     .once = true},
    {"tags", "pause", "TAG", "no node hands out ids of a tag until it is resumed",
     "What nodes hold of it is kept. A node that is cut off does not learn of it.",
     TAGS_PAUSE_OPTIONS, .run = run_tags_pause, .method = "PUT", .path = "/api/tags/*",
     TAKES({TAG}), .put = put_tag, .must_exist = true},
    {"tags", "resume", "TAG", "hand out ids of a paused tag again", NULL, TAGS_DELETE_OPTIONS,
     .run = run_tags_pause, .method = "PUT", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag,
     .must_exist = true},
    {"tags", "delete", "TAG", "delete a tag; its ids never come again", NULL, TAGS_DELETE_OPTIONS,
     .method = "DELETE", .path = "/api/tags/*", TAKES({TAG}), .put = put_tag, .may_be_gone = true},
    {"next", NULL, "TAG", "take ids, one a line",
     "A request without an answer is asked again, at another node too: the ids of the first "
     "one are skipped, and none is printed twice.",
     NEXT_OPTIONS, .run = run_next},
    {"decode", NULL, "ID",
     "take a snowflake id, also a UUID or ULID, apart: time, worker id, sequence", NULL,
     DECODE_OPTIONS, .run = run_decode, .path = "/api/snowflake/decode/*",
     TAKES({"ID", NULL, PART_TEXT, 0, 0}),
     .form = "time      {time} ({timestamp_ms:n} ms)\nworker id {worker_id:n}\n"
             "sequence  {sequence:n}\n"},
    {"at", NULL, "TIME",
     "the smallest snowflake id of a time: RFC 3339 with its zone, or Unix milliseconds", NULL,
     DECODE_OPTIONS, .path = "/api/snowflake/at?format=json",
     TAKES({"TIME", "time", PART_TEXT, 0, 0}), .form = "{id}\n"},
    {"workers", "list", NULL, "worker ids of snowflake ids: what holds each, until when", NULL,
     WORKERS_LIST_OPTIONS, .run = run_workers_list, .is_default = true},
    {"workers", "acquire", "NAME",
     "get a worker id for a generator outside of leafd, or keep one from being used", NULL,
     WORKERS_ACQUIRE_OPTIONS, .method = "POST", .path = "/api/workers",
     TAKES({"NAME", "name", PART_TEXT, 0, 0}), .put = put_worker},
    {"workers", "renew", "ID", "hold a worker id longer", NULL, WORKERS_RENEW_OPTIONS,
     .run = run_workers_change, .method = "PUT", .path = "/api/workers/*", TAKES({WORKER}),
     .put = put_worker},
    {"workers", "release", "ID", "give a worker id back", NULL, WORKERS_RELEASE_OPTIONS,
     .run = run_workers_change, .method = "DELETE", .path = "/api/workers/*", TAKES({WORKER}),
     .put = put_worker},
    {"workers", "pools", "[POOLS]", "worker ids of each zone; with POOLS: these instead",
     "POOLS is like a=0-31,b=32-63, or empty for none. A zone with a pool takes from that alone, "
     "all "
     "others from what is in none. What is held stays so.",
     NULL, .method = "PUT", .path = "/api/workers/pools",
     TAKES({"POOLS", "pools", PART_TEXT, 0, 0}), .form = "{pools}\n"},
    {"layouts", "list", NULL, "layouts of snowflake ids by name", NULL, NULL,
     .path = "/api/layouts", .columns = LAYOUT_COLUMNS, .is_default = true},
    {"members", "list", NULL, "the members of the cluster", NULL, NULL, .run = run_members_list,
     .is_default = true},
    {"members", "add", "ID HOST:PORT", "let a node in, by its peer address",
     "Start it with an empty directory and --join, before or after. It votes once it has "
     "caught up.",
     CHANGE_OPTIONS, .method = "POST", .path = "/api/cluster/members", TAKES({MEMBER}, {PEER}),
     .waits = true},
    {"members", "remove", "ID", "remove a node, which may be dead; its id cannot be used again",
     "Of a voter that is healthy it says how many voters are left and how many of them may "
     "fail then, and asks.",
     MEMBERS_REMOVE_OPTIONS, .run = run_members_remove, .method = "DELETE",
     .path = "/api/cluster/members/*", TAKES({MEMBER}), .waits = true},
    {"members", "replace", "OLD-ID NEW-ID HOST:PORT", "remove a dead node, then let a new one in",
     NULL, CHANGE_OPTIONS, .run = run_members_replace, .path = "/api/cluster/members/*",
     TAKES({MEMBER}, {MEMBER}, {PEER})},
    {"members", "address", "ID HOST:PORT", "say where the others reach a node from now on", NULL,
     CHANGE_OPTIONS, .method = "PUT", .path = "/api/cluster/members/*", TAKES({MEMBER}, {PEER}),
     .waits = true},
    {"members", "drain", "ID", "give a node's work to the others, until it is resumed",
     "Its /readyz refuses, its HTTP connections end after their answers, and it leads no more. It "
     "stays so over its restarts.",
     PLACE_OPTIONS, .method = "POST", .path = "/api/nodes/*/drain", TAKES({MEMBER}), .waits = true},
    {"members", "resume", "ID", "a drained node takes work again", NULL, WAIT_OPTIONS,
     .method = "POST", .path = "/api/nodes/*/resume", TAKES({MEMBER}), .waits = true},
    {"members", "weight", "ID WEIGHT", "how much of its zone's work a node is given, 0 to 1000",
     NULL, PLACE_OPTIONS, .method = "PUT", .path = "/api/nodes/*",
     TAKES({MEMBER}, {"WEIGHT", "weight", PART_NUMBER, 0, 1000}), .waits = true},
    {"clients", "list", NULL, "clients that are cut, until when, and by whom", NULL, NULL,
     .path = "/api/clients/cuts", .columns = CUT_COLUMNS, .is_default = true},
    {"clients", "cut", "ADDRESS[/PREFIX]|TOKEN", "no node serves a client for a time",
     "TOKEN is the name in the tokens file. It ends by itself.", CLIENTS_CUT_OPTIONS,
     .run = run_clients_cut, .method = "PUT", .path = "/api/clients/cuts/*", TAKES({WHO}),
     .put = put_cut},
    {"clients", "restore", "ADDRESS[/PREFIX]|TOKEN", "serve a client that was cut again", NULL,
     NULL, .method = "DELETE", .path = "/api/clients/cuts/*", TAKES({WHO}), .put = put_cut},
    {"leader", NULL, "[ID]", "which node leads; with ID: move the leadership there", NULL,
     WAIT_OPTIONS, .run = run_leader, .method = "POST", .path = "/api/cluster/leader",
     TAKES({MEMBER}), .waits = true},
    {"level", "show", NULL, "the cluster's level, and which node keeps it from rising", NULL, NULL,
     .path = "/api/cluster/level", .put = put_level, .is_default = true},
    {"level", "raise", "[LEVEL]", "raise the level by one; there is no way back", NULL,
     WAIT_OPTIONS, .run = run_level_raise, .method = "POST", .path = "/api/cluster/level",
     TAKES({"LEVEL", "level", PART_NUMBER, 1, 65535}), .waits = true},
    {"backup", NULL, "FILE", "the whole state as a file, for leafd restore",
     "FILE is replaced once the new backup is whole, verified and on the disk; until then it "
     "is FILE.part.",
     BACKUP_OPTIONS, .run = run_backup},
    {"restore", NULL, "...", "make the data of a new cluster out of a backup: leafd restore",
     "Runs leafd restore with what follows, on this machine.", NULL, .run = run_offline_misplaced,
     .is_offline = true},
    {"recover", NULL, "...", "make up for a lost majority, out of what is left: leafd recover",
     "Runs leafd recover with what follows, on this machine.", NULL, .run = run_offline_misplaced,
     .is_offline = true},
    {"import", "leaf", "[FILE]",
     "take over Leaf's table leaf_alloc: each tag continues at its row's max_id",
     "Stop all Leaf servers before the rows are read, or let them run on with --mysql and --ahead. "
     "FILE is a dump of mysqldump, columns between tabs (mysql -B, or INTO OUTFILE), CSV, or JSON. "
     "All is checked before anything is sent, and a run that was broken off is run again.",
     IMPORT_OPTIONS, .run = run_import},
    {"import", "tinyid", "[FILE]",
     "take over TinyID's table tiny_id_info: each tag continues above its row's max_id",
     "Stop all TinyID servers, and clients that hold segments, before the rows are read, or let "
     "them run on with --mysql and --ahead. A row with a delta other than 1 is refused: leafd "
     "hands "
     "out every number.",
     IMPORT_OPTIONS, .run = run_import},
    {"import", "cosid", "[FILE]",
     "take over CosId's table cosid: each tag continues above its row's last_max_id",
     "Stop all programs with CosId before the rows are read, or let them run on with --mysql and "
     "--ahead.",
     IMPORT_OPTIONS, .run = run_import},
    {"import", "sql", NULL,
     "take over AUTO_INCREMENT of MySQL, sequences of PostgreSQL, counters of Redis, or a query",
     "It asks by the database's own tool (mysql, psql, redis-cli), whose own configuration has the "
     "password. A tag has the name of its table, sequence or key.",
     IMPORT_SQL_OPTIONS, .run = run_import},
    {"import", "csv", "FILE", "take over any counters: a file with the columns tag and max_id",
     "max_id is the next id. The columns step and description may be there, too.",
     IMPORT_CSV_OPTIONS, .run = run_import},
    {"token", "new", NULL, "a new token, and its line for auth.tokens-file",
     "The line has only the token's hash. Put it into the file of each node, and send SIGHUP.",
     TOKEN_NEW_OPTIONS, .run = run_token_new, .is_offline = true},
    {.family = NULL},
};

/* --- the table as text --- */

#define TEXT_COLUMN 30

/* --- help --- */

/* "tags put TAG", without parts that cannot be given. */
static void describe_words(const struct command *command, struct buf *out)
{
    buf_printf(out, "%s", command->family);
    if (command->name != NULL) {
        buf_printf(out, command->is_default ? " [%s]" : " %s", command->name);
    }
    if (command->operands != NULL) {
        buf_printf(out, " %s", command->operands);
    }
}

static void describe_put_line(const char *what, const char *text, struct buf *out)
{
    size_t at = strlen(what) + 2;

    buf_printf(out, "  %s", what);
    if (at + 2 > TEXT_COLUMN) {
        buf_printf(out, "\n");
        at = 0;
    }
    buf_printf(out, "%*s%s\n", (int)(TEXT_COLUMN - at), "", text);
}

static void describe_put_options(const struct option_about *list, struct buf *out)
{
    for (EACH_OPTION(option, list)) {
        BUF_LOCAL(what);

        if (option->letter != 0) {
            buf_printf(&what, "-%c, ", option->letter);
        }
        buf_printf(&what, "--%s%s%s", option->name, option->value != NULL ? " " : "",
                   option->value != NULL ? option->value : "");
        describe_put_line(buf_text(&what), option->text, out);
    }
}

static void describe_put_settings(struct buf *out)
{
    buf_printf(out,
               "\nsettings, also as LEAFCTL_SERVER and so on, or in ~/.config/leafctl/config:\n");
    describe_put_options(SETTINGS_ABOUT, out);
}

void describe_all(struct buf *out)
{
    buf_printf(out,
               "leafctl - look at a cluster of leafd, and change it\n\nusage: leafctl [SETTINGS] "
               "COMMAND\n\ncommands:\n");
    for (EACH_COMMAND(at, COMMANDS)) {
        BUF_LOCAL(what);

        describe_words(at, &what);
        describe_put_line(buf_text(&what), at->summary, out);
    }
    describe_put_settings(out);
    buf_printf(out, "\nleafctl COMMAND --help explains a command; leafctl --version prints the "
                    "version.\n");
}

void describe_command(const struct command *command, struct buf *out)
{
    buf_printf(out, "usage: leafctl ");
    describe_words(command, out);
    buf_printf(out, "%s\n\n  %s\n", command->options != NULL ? " [OPTIONS]" : "", command->summary);
    if (command->text != NULL) {
        buf_printf(out, "  %s\n", command->text);
    }
    if (command->options != NULL) {
        buf_printf(out, "\noptions:\n");
    }
    describe_put_options(command->options, out);
    describe_put_settings(out);
}

/* --- completions --- */

/* Does a value, or an operand, name a file? */
static bool is_file(const char *text)
{
    return text != NULL && strstr(text, "FILE") != NULL;
}

static void complete_put(const char *dashes, const char *word, const char *text, struct buf *out)
{
    buf_printf(out, "%s%s\t%s\n", dashes, word, text != NULL ? text : "");
}

static void complete_put_options(const struct option_about *list, struct buf *out)
{
    for (EACH_OPTION(option, list)) {
        complete_put("--", option->name, option->text, out);
    }
}

/* The kind of this option's value, if the option is in the list: "FILE"; NULL: none. */
static const char *complete_value_of(const struct option_about *list, const char *word)
{
    for (EACH_OPTION(option, list)) {
        if (word[1] == '-' ? strcmp(word + 2, option->name) == 0
                           : word[1] != '\0' && word[1] == option->letter && word[2] == '\0') {
            return option->value;
        }
    }
    return NULL;
}

/* The words before the cursor: the family, the name if the family has names, and the kind of value
 * that the last word needs. */
static void complete_read(const char *const *words, size_t count, const char **ret_family,
                          const char **ret_name, const char **ret_value)
{
    *ret_family = *ret_name = *ret_value = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i];
        bool has_names = false;

        if (*ret_value != NULL) {
            *ret_value = NULL;
        } else if (*word == '-') {
            *ret_value = complete_value_of(SETTINGS_ABOUT, word);
            for (EACH_COMMAND(at, COMMANDS)) {
                *ret_value = *ret_value == NULL ? complete_value_of(at->options, word) : *ret_value;
            }
        } else if (*ret_family == NULL) {
            *ret_family = word;
        } else if (*ret_name == NULL) {
            for (EACH_COMMAND(at, COMMANDS)) {
                has_names |= at->name != NULL && strcmp(at->family, *ret_family) == 0;
            }
            *ret_name = has_names ? word : NULL;
        }
    }
}

void complete_words(const char *const *words, size_t count, struct buf *out)
{
    const char *last = count > 0 ? words[count - 1] : "";
    const char *family;
    const char *name;
    const char *value;
    bool file = false;

    complete_read(words, count > 0 ? count - 1 : 0, &family, &name, &value);
    for (EACH_COMMAND(at, COMMANDS)) {
        bool own = family != NULL && strcmp(at->family, family) == 0;
        bool this = own && (name != NULL       ? at->name != NULL && strcmp(at->name, name) == 0
                            : at->name != NULL ? at->is_default
                                               : true);

        if (value != NULL) {
            continue;
        }
        if (*last == '-') {
            complete_put_options(this ? at->options : NULL, out);
        } else if (family == NULL && (at == COMMANDS || strcmp(at[-1].family, at->family) != 0)) {
            complete_put("", at->family, at->name == NULL ? at->summary : NULL, out);
        } else if (own && name == NULL && at->name != NULL) {
            complete_put("", at->name, at->summary, out);
        }
        file |= this && out->len == 0 && is_file(at->operands);
    }
    if (value == NULL && *last == '-') {
        complete_put_options(SETTINGS_ABOUT, out);
        complete_put("--", "help", NULL, out);
    } else if (file || is_file(value)) {
        buf_printf(out, ":file\n");
    }
}

/* --- the manual page --- */

/* Text without markup for scdoc. */
static void manual_put_text(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\*_<>#|[]", *text) != NULL) {
            buf_put(out, "\\", 1);
        }
        buf_put(out, text, 1);
    }
}

static void manual_put_options(const struct option_about *list, struct buf *out)
{
    for (EACH_OPTION(option, list)) {
        if (option->letter != 0) {
            buf_printf(out, "*-%c*, ", option->letter);
        }
        buf_printf(out, "*--%s*", option->name);
        if (option->value != NULL) {
            buf_printf(out, " ");
            manual_put_text(option->value, out);
        }
        buf_printf(out, "\n\t");
        manual_put_text(option->text, out);
        buf_printf(out, "\n\n");
    }
}

void complete_manual(struct buf *out)
{
    buf_printf(out, "# COMMANDS\n\n");
    for (EACH_COMMAND(at, COMMANDS)) {
        buf_printf(out, "## ");
        describe_words(at, out); /* a heading is not escaped */
        buf_printf(out, "%s\n\n", at->options != NULL ? " [OPTIONS]" : "");
        manual_put_text(at->summary, out);
        buf_printf(out, ".%s", at->text != NULL ? " " : "");
        manual_put_text(at->text != NULL ? at->text : "", out);
        buf_printf(out, "\n\n");
        manual_put_options(at->options, out);
    }
    buf_printf(out, "# SETTINGS\n\n");
    manual_put_options(SETTINGS_ABOUT, out);
}

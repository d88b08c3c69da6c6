/*
 * commands.c - every command of leafctl: its words, what it says of itself, its options, and the
 * function that runs it. Help, completions, the manual page and the parser are made of this table.
 */
#include "src/ctl/cmd/command.h"

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
    {"mode", 0, "MODE", "trend, strict or monotonic"},
    {"description", 0, "TEXT", "up to 256 bytes"},
    {"shape", 0, "SHAPE", "of a new name: its ids are texts, such as 'INV-{id:6}{luhn}', for ever"},
    {"shape-key", 0, "N",
     "of a shape with {key}: the key of this number, the present or the next one"},
    {"wait-all", 0, NULL, "until all nodes have made the change"},
    {"force", 0, NULL, "a max_id that is lower, or much higher, than it was; sent once"},
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

static const struct option_about MEMBERS_REMOVE_OPTIONS[] = {
    {"wait", 0, "SECONDS", "how long to wait until it is done (default 120)"},
    {"yes", 0, NULL, "also a voter that is healthy, without asking"},
    {"force", 0, NULL, "even if too few voters that are left can be reached; sent once"},
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

static const struct option_about IMPORT_OPTIONS[] = {
    {"dry-run", 0, NULL, "check everything, send nothing"},
    {"print", 0, NULL, "print the tags as lines of JSON, as POST /api/tags takes them; ask nobody"},
    {"skip-ahead", 0, NULL, "leave tags alone that are further in the cluster than in the rows"},
    {"force", 0, NULL, "tags that leafd takes by force alone; nobody may use them meanwhile"},
    {"format", 0, "FORM",
     "sql, tsv, outfile, csv, csv-doubled, csv-backslash or json (default: found out)"},
    {"columns", 0, "NAMES", "the order of columns that the file does not name, between commas"},
    {"table", 0, "NAME", "the table's name"},
    {"every-number", 0, NULL, "rows with a delta: all databases are in the file"},
    {"mysql", 0, "HOST:PORT", "read the table from MariaDB or MySQL, instead of a file"},
    {"mysql-socket", 0, "PATH", "the same over a local socket"},
    {"mysql-database", 0, "NAME", "the database"},
    {"mysql-user", 0, "NAME", "as whom (default: as the library decides)"},
    {"mysql-password-file", 0, "FILE", "file with the password (or LEAFCTL_MYSQL_PASSWORD)"},
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

const struct command COMMANDS[] = {
    {"status", NULL, NULL,
     "the cluster on one screen: members, leader, quorum, lag, clocks, disk, alarms",
     "It is what one node sees.", STATUS_OPTIONS, run_status, false, false},
    {"check", NULL, NULL,
     "is the cluster healthy and well set up? reasons, what to do, and an exit code",
     "It asks every server that --server names, so name all nodes. Exit code 0: nothing to "
     "say; 1: warnings; 2: something is critical.",
     CHECK_OPTIONS, run_check, false, false},
    {"top", NULL, "[PREFIX]",
     "the busiest tags: rates, and how long the ids that nodes hold will last",
     "A node knows only its own rates: name all nodes with --server.", TOP_OPTIONS, run_top, false,
     false},
    {"events", NULL, NULL, "what happened: elections, members, links, level, alarms",
     "A node knows what it saw since its start: name all nodes with --server.", EVENTS_OPTIONS,
     run_events, false, false},
    {"audit", NULL, NULL, "what was changed and what was refused, and by whom",
     "A node keeps what came to it since its start: name all nodes with --server.", AUDIT_OPTIONS,
     run_audit, false, false},
    {"tags", "list", "[PREFIX]", "tags, in the order of their names",
     "With --json each page of up to 1000 is a line, as GET /api/tags gives it; POST "
     "/api/tags of another cluster takes them as they are.",
     TAGS_LIST_OPTIONS, run_tags_list, true, false},
    {"tags", "get", "TAG", "one tag", NULL, NULL, run_tags_get, false, false},
    {"tags", "put", "TAG", "make a tag, or change it", "What no option names stays as it is.",
     TAGS_PUT_OPTIONS, run_tags_put, false, false},
    {"tags", "delete", "TAG", "delete a tag; its ids never come again", NULL, TAGS_DELETE_OPTIONS,
     run_tags_delete, false, false},
    {"next", NULL, "TAG", "take ids, one a line",
     "A request without an answer is asked again, at another node too: the ids of the first "
     "one are skipped, and none is printed twice.",
     NEXT_OPTIONS, run_next, false, false},
    {"decode", NULL, "ID",
     "take a snowflake id, also a UUID or ULID, apart: time, worker id, sequence", NULL,
     DECODE_OPTIONS, run_decode, false, false},
    {"workers", "list", NULL, "worker ids of snowflake ids: what holds each, until when", NULL,
     WORKERS_LIST_OPTIONS, run_workers_list, true, false},
    {"workers", "acquire", "NAME",
     "get a worker id for a generator outside of leafd, or keep one from being used", NULL,
     WORKERS_ACQUIRE_OPTIONS, run_workers_acquire, false, false},
    {"workers", "renew", "ID", "hold a worker id longer", NULL, WORKERS_RENEW_OPTIONS,
     run_workers_renew, false, false},
    {"workers", "release", "ID", "give a worker id back", NULL, WORKERS_RELEASE_OPTIONS,
     run_workers_release, false, false},
    {"layouts", "list", NULL, "layouts of snowflake ids by name", NULL, NULL, run_layouts_list,
     true, false},
    {"members", "list", NULL, "the members of the cluster", NULL, NULL, run_members_list, true,
     false},
    {"members", "add", "ID HOST:PORT", "let a node in, by its peer address",
     "Start it with an empty directory and --join, before or after. It votes once it has "
     "caught up.",
     CHANGE_OPTIONS, run_members_add, false, false},
    {"members", "remove", "ID", "remove a node, which may be dead; its id never comes back",
     "Of a voter that is healthy it says how many voters are left and how many of them may "
     "fail then, and asks.",
     MEMBERS_REMOVE_OPTIONS, run_members_remove, false, false},
    {"members", "replace", "OLD-ID NEW-ID HOST:PORT", "remove a dead node, then let a new one in",
     NULL, CHANGE_OPTIONS, run_members_replace, false, false},
    {"members", "address", "ID HOST:PORT", "say where the others reach a node from now on", NULL,
     CHANGE_OPTIONS, run_members_address, false, false},
    {"leader", NULL, "[ID]", "which node leads; with ID: move the leadership there", NULL,
     WAIT_OPTIONS, run_leader, false, false},
    {"level", "show", NULL, "the cluster's level, and which node keeps it from rising", NULL, NULL,
     run_level_show, true, false},
    {"level", "raise", "[LEVEL]", "raise the level by one; there is no way back", NULL,
     WAIT_OPTIONS, run_level_raise, false, false},
    {"backup", NULL, "FILE", "the whole state as a file, for leafd restore",
     "FILE is replaced once the new backup is whole, verified and on the disk; until then it "
     "is FILE.part.",
     BACKUP_OPTIONS, run_backup, false, false},
    {"restore", NULL, "...", "make the data of a new cluster out of a backup: leafd restore",
     "Runs leafd restore with what follows, on this machine.", NULL, run_offline_misplaced, false,
     true},
    {"recover", NULL, "...", "make up for a lost majority, out of what is left: leafd recover",
     "Runs leafd recover with what follows, on this machine.", NULL, run_offline_misplaced, false,
     true},
    {"import", "leaf", "[FILE]",
     "take over Leaf's table leaf_alloc: each tag continues at its row's max_id",
     "Stop all Leaf servers before the rows are read. FILE is a dump of mysqldump, columns "
     "between tabs (mysql -B, or INTO OUTFILE), CSV, or JSON. All is checked before anything is "
     "sent, and a run that was broken off is run again.",
     IMPORT_OPTIONS, run_import, false, false},
    {"import", "tinyid", "[FILE]",
     "take over TinyID's table tiny_id_info: each tag continues above its row's max_id",
     "Stop all TinyID servers, and clients that hold segments, before the rows are read. A row "
     "with a delta other than 1 is refused: leafd hands out every number.",
     IMPORT_OPTIONS, run_import, false, false},
    {"token", "new", NULL, "a new token, and its line for auth.tokens-file",
     "The line has only the token's hash. Put it into the file of each node, and send SIGHUP.",
     TOKEN_NEW_OPTIONS, run_token_new, false, true},
    {NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, false},
};

/*
 * methods.c - see methods.h. The table is searched in order, the hot ones first. Thread: constant.
 */
#include "http/resp/api/methods.h"

#include "http/api/context.h"
#include "http/resp/api/handlers.h"

#define WORDS(min, max) .words_min = (min), .words_max = (max)
#define ANY_WORDS(min) WORDS(min, LIMIT_RESP_WORDS)
#define METHOD(name_, role_, handle_, ...)                                                         \
    .route = {.path = (name_), .role = (role_), .doors = DOOR_IDS, .handle = (handle_), __VA_ARGS__}
#define TAG .names_tag = true

static const struct resp_method methods[] = {
    {METHOD("INCR", ROLE_IDS, handle_incr, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(2, 2),
     .usage = "INCR tag", .summary = "Take one id of a tag."},
    {METHOD("INCRBY", ROLE_IDS, handle_incrby, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(3, 3),
     .usage = "INCRBY tag count",
     .summary = "Take so many ids of a tag that follow each other; the last one is the answer."},
    {METHOD("LEAFD.NEXT", ROLE_IDS, handle_next, TAG), .traffic = TRAFFIC_SEGMENT, WORDS(2, 6),
     .usage = "LEAFD.NEXT tag [COUNT count] [KEY key]",
     .summary = "Take an id of a tag, or so many as an array; with an idempotency key."},
    {METHOD("LEAFD.SNOWFLAKE", ROLE_IDS, handle_snowflake), .traffic = TRAFFIC_SNOWFLAKE,
     WORDS(1, 5), .usage = "LEAFD.SNOWFLAKE [COUNT count] [LAYOUT name]",
     .summary = "Take a snowflake id, or so many as an array."},
    {METHOD("LEAFD.DECODE", ROLE_IDS, handle_decode), .traffic = TRAFFIC_DECODE, WORDS(2, 4),
     .usage = "LEAFD.DECODE id [LAYOUT name]", .summary = "Take a snowflake id apart."},
    {METHOD("GET", ROLE_READ, handle_get, TAG), .traffic = TRAFFIC_READ, WORDS(2, 2),
     .usage = "GET tag", .summary = "The max_id of a tag: all its ids lie below it."},
    {METHOD("PING", ROLE_NONE, handle_ping), .traffic = TRAFFIC_RESP, WORDS(1, 2),
     .usage = "PING [message]", .summary = "PONG, or the message."},
    {METHOD("ECHO", ROLE_NONE, handle_echo), .traffic = TRAFFIC_RESP, WORDS(2, 2),
     .usage = "ECHO message", .summary = "The message."},
    {METHOD("HELLO", ROLE_NONE, handle_hello), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "HELLO [2|3 [AUTH user token] [SETNAME name]]",
     .summary = "Choose the version of RESP, and say who asks."},
    {METHOD("AUTH", ROLE_NONE, handle_auth), .traffic = TRAFFIC_RESP, WORDS(2, 3),
     .usage = "AUTH [user] token", .summary = "Say who asks."},
    {METHOD("CLIENT", ROLE_NONE, handle_client), .traffic = TRAFFIC_RESP, ANY_WORDS(2),
     .usage = "CLIENT SETNAME name|GETNAME|SETINFO attribute value|ID|NO-EVICT on|NO-TOUCH on",
     .summary = "The connection's name and number."},
    {METHOD("COMMAND", ROLE_NONE, handle_command), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "COMMAND [COUNT|INFO [name ...]|DOCS [name ...]]",
     .summary = "What may be asked here."},
    {METHOD("CONFIG", ROLE_NONE, handle_config), .traffic = TRAFFIC_RESP, ANY_WORDS(2),
     .usage = "CONFIG GET name ...", .summary = "Empty: Redis's settings are not leafd's."},
    {METHOD("INFO", ROLE_NONE, handle_info), .traffic = TRAFFIC_RESP, ANY_WORDS(1),
     .usage = "INFO [section ...]", .summary = "What this node is."},
    {METHOD("SELECT", ROLE_NONE, handle_select), .traffic = TRAFFIC_RESP, WORDS(2, 2),
     .usage = "SELECT 0", .summary = "There is one database, number 0."},
    {METHOD("QUIT", ROLE_NONE, handle_quit), .traffic = TRAFFIC_RESP, WORDS(1, 1), .usage = "QUIT",
     .summary = "End the connection."},
};

const struct resp_methods *methods_table(void)
{
    static const struct resp_methods table = {methods, sizeof methods / sizeof methods[0]};

    return &table;
}

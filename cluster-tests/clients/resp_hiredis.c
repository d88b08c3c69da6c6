/*
 * resp_hiredis.c - takes ids by hiredis, as any program does: INCR, INCRBY, a pipeline; a line for
 * each reply. Arguments: port, tag. Exit code 1 when a reply is none.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

static int show(redisReply *reply)
{
    if (reply == NULL) {
        return 1;
    }
    if (reply->type == REDIS_REPLY_INTEGER) {
        printf("integer %lld\n", reply->integer);
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        printf("array %zu, last %lld\n", reply->elements,
               reply->element[reply->elements - 1]->integer);
    } else {
        printf("%s %s\n", reply->type == REDIS_REPLY_ERROR ? "error" : "text", reply->str);
    }
    freeReplyObject(reply);
    return 0;
}

int main(int argc, char **argv)
{
    const char *tag = argc == 3 ? argv[2] : "";
    redisContext *redis = redisConnect("127.0.0.1", argc == 3 ? (int)strtol(argv[1], NULL, 10) : 0);
    int failed = redis == NULL || redis->err != 0;

    if (!failed) {
        failed |= show(redisCommand(redis, "INCR %s", tag));
        failed |= show(redisCommand(redis, "INCRBY %s %d", tag, 10));
        failed |= show(redisCommand(redis, "LEAFD.NEXT %s COUNT 5", tag));
        for (int i = 0; i < 100; i++) {
            redisAppendCommand(redis, "INCR %s", tag);
        }
        for (int i = 0; i < 100; i++) {
            redisReply *reply = NULL;

            failed |= redisGetReply(redis, (void **)&reply) != REDIS_OK;
            failed |= show(reply);
        }
        failed |= show(redisCommand(redis, "SET a 1"));
    }
    redisFree(redis);
    return failed;
}

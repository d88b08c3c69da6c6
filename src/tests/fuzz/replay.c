/*
 * replay.c - the main program of a fuzzer without libFuzzer: runs through the inputs that are kept,
 * and through variants of them that are the same in each run and on each machine.
 *
 *     fuzz_NAME [--variants N] FILE-OR-FOLDER...
 *     fuzz_NAME --variant K FILE         what failed, once more: the variant K alone
 *
 * The happy path: each file is one input, a folder all of its files; "replay: N inputs" at the end.
 * The name of an input is written before it is tried, so that the last line of a run that died
 * names the one that did it; it ends with the number of the variant, if it was one. A variant
 * depends on nothing but its number and the bytes of its input.
 *
 * Failure modes: 2 if a file cannot be read or there is none; an ASSERT or a sanitizer's report for
 * what an input shows. Thread: one.
 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "src/base/prng.h"

#define PATH_BYTES 4096
#define CHANGES_MAX 4 /* of one variant */
#define INSERT_MAX 16 /* bytes */
#define INPUT_BYTES_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned tried;
static uint64_t first_variant = 1;
static uint64_t last_variant; /* 0: none */
static uint64_t now;          /* the variant that is tried; 0: the input itself */

/* --- variants --- */

/* The ends of numbers, as bytes and as text. */
static void put_number(struct prng *prng, uint8_t *at, size_t room)
{
    static const char *const texts[] = {
        "0", "-1", "65536", "4294967296", "9223372036854775807", "18446744073709551616"};
    const uint64_t ends[] = {0, 1, 127, 128, 255, 65535, INT32_MAX, INT64_MAX, UINT64_MAX};
    const char *text = texts[prng_below(prng, sizeof texts / sizeof texts[0])];
    const uint64_t number = ends[prng_below(prng, sizeof ends / sizeof ends[0])];
    const size_t bytes = (size_t)1 << prng_below(prng, 4);

    if (prng_below(prng, 2) == 0) {
        memcpy(at, text, strlen(text) < room ? strlen(text) : room);
        return;
    }
    for (size_t i = 0; i < room && i < bytes; i++) { /* the highest byte first */
        at[i] = (uint8_t)(number >> (bytes - 1 - i) * 8);
    }
}

/* One change of data, which has room for INSERT_MAX bytes more. Returns the new length. */
static size_t change(struct prng *prng, uint8_t *data, size_t len)
{
    const size_t at = (size_t)prng_below(prng, len + 1);
    const size_t from = (size_t)prng_below(prng, len + 1);
    const size_t rest = len - at;
    const size_t most = rest < INSERT_MAX ? rest : INSERT_MAX;
    size_t count = (size_t)prng_below(prng, INSERT_MAX) + 1;
    uint8_t copied[INSERT_MAX];

    switch (prng_below(prng, 6)) {
    case 0:
        if (rest > 0) {
            data[at] ^= (uint8_t)(1U << prng_below(prng, 8));
        }
        return len;
    case 1:
        if (rest > 0) {
            data[at] = (uint8_t)prng_next(prng);
        }
        return len;
    case 2:
        put_number(prng, data + at, most);
        return len;
    case 3: /* a piece is gone, maybe all that follows */
        count = prng_below(prng, 4) == 0 || count > rest ? rest : count;
        memmove(data + at, data + at + count, rest - count);
        return len - count;
    case 4: /* a piece comes twice */
        count = count < len - from ? count : len - from;
        memcpy(copied, data + from, count);
        memmove(data + at + count, data + at, rest);
        memcpy(data + at, copied, count);
        return len + count;
    default:
        memmove(data + at + count, data + at, rest);
        for (size_t i = 0; i < count; i++) {
            data[at + i] = (uint8_t)prng_next(prng);
        }
        return len + count;
    }
}

static void try_variant(const uint8_t *data, size_t size, uint64_t number)
{
    uint8_t *changed = malloc(size + (size_t)CHANGES_MAX * INSERT_MAX);
    uint64_t seed = number;
    struct prng prng;
    uint8_t *exact;
    size_t len = size;

    for (size_t i = 0; i < size; i++) {
        seed = (seed ^ data[i]) * 0x100000001b3; /* FNV-1a */
    }
    prng_seed(&prng, seed);
    if (changed == NULL) {
        abort();
    }
    memcpy(changed, data, size);
    for (uint64_t left = 1 + prng_below(&prng, CHANGES_MAX); left > 0; left--) {
        len = change(&prng, changed, len);
    }
    exact = realloc(changed, len > 0 ? len : 1);
    if (exact == NULL) {
        abort();
    }
    (void)LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

/* --- files --- */

/* The input is in memory of exactly its size, so that a byte too far is seen. */
static int try_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    size_t got = file != NULL && data != NULL ? fread(data, 1, size, file) : 0;

    if (file == NULL || data == NULL || got != size) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        free(data);
        return 2;
    }
    (void)fclose(file);
    if (first_variant == 1) {
        printf("%s\n", path);
        (void)fflush(stdout);
        (void)LLVMFuzzerTestOneInput(data, size);
        tried++;
    }
    for (uint64_t i = first_variant; i <= last_variant; i++) {
        now = i;
        try_variant(data, size, i);
    }
    now = 0;
    free(data);
    return 0;
}

static int try_path(const char *path);

static int try_folder(const char *path)
{
    struct dirent **names = NULL;
    int count = scandir(path, &names, NULL, alphasort);
    int rv = count < 0 ? 2 : 0;

    for (int i = 0; i < count; i++) {
        char inner[PATH_BYTES];
        int len = snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);

        if (rv == 0 && names[i]->d_name[0] != '.') {
            rv = len > 0 && (size_t)len < sizeof inner ? try_path(inner) : 2;
        }
        free(names[i]);
    }
    free(names);
    return rv;
}

static int try_path(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0 || (uint64_t)st.st_size > INPUT_BYTES_MAX) {
        fprintf(stderr, "replay: %s is no input\n", path);
        return 2;
    }
    return S_ISDIR(st.st_mode) ? try_folder(path) : try_file(path, (size_t)st.st_size);
}

/* --- the end of a run that died --- */

/* Of ASan and UBSan. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void tell_variant(void)
{
    if (now != 0) {
        fprintf(stderr, "replay: of this input it is --variant %llu\n", (unsigned long long)now);
    }
}

static void on_abort(int signal)
{
    (void)signal; /* it ends the process */
    tell_variant();
}

int main(int argc, char *argv[])
{
    int first = 1;
    int rv = 0;

    if (argc > 2 && strncmp(argv[1], "--variant", 9) == 0) {
        last_variant = strtoull(argv[2], NULL, 10);
        first_variant = strcmp(argv[1], "--variant") == 0 ? last_variant : 1;
        first = 3;
    }
    (void)signal(SIGABRT, on_abort);
    if (__sanitizer_set_death_callback != NULL) {
        __sanitizer_set_death_callback(tell_variant);
    }
    for (int i = first; i < argc && rv == 0; i++) {
        rv = try_path(argv[i]);
    }
    printf("replay: %u inputs\n", tried);
    return rv == 0 && tried == 0 ? 2 : rv;
}

/*
 * replay.c - the main program of a fuzzer without libFuzzer: runs through the inputs that are kept.
 *
 *     fuzz_NAME FILE-OR-FOLDER...
 *
 * The happy path: each file is one input, a folder all of its files; "replay: N inputs" at the end.
 * The name of an input is written before it is tried, so that the last line of a run that died
 * names the one that did it.
 *
 * Failure modes: 2 if a file cannot be read or there is none; an ASSERT or a sanitizer's report for
 * what an input shows. Thread: one.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4096
#define INPUT_BYTES_MAX (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static unsigned tried;

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
    printf("%s\n", path);
    (void)fflush(stdout);
    (void)LLVMFuzzerTestOneInput(data, size);
    free(data);
    tried++;
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

int main(int argc, char *argv[])
{
    int rv = 0;

    for (int i = 1; i < argc && rv == 0; i++) {
        rv = try_path(argv[i]);
    }
    printf("replay: %u inputs\n", tried);
    return rv == 0 && tried == 0 ? 2 : rv;
}

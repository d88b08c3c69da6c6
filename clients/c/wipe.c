/* See wipe.h. */
#include "wipe.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

void *wipe_new(size_t bytes)
{
    size_t whole = whole_pages(bytes);
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return NULL;
    }
    if (madvise(memory, whole, MADV_WIPEONFORK) != 0) {
        munmap(memory, whole);
        return NULL;
    }
    return memory;
}

void wipe_free(void *memory, size_t bytes)
{
    if (memory != NULL) {
        munmap(memory, whole_pages(bytes));
    }
}

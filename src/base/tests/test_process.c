/*
 * test_process.c - memory, descriptors and threads of this process, as they change.
 *
 * Thread: one that looks, and one that is looked at.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "src/tests/unit/test.h"
#include "src/base/process.h"

#define BLOCK_BYTES (64 << 20)
#define DESCRIPTORS 20

static const struct process_thread *find(const struct process_figures *figures, const char *name)
{
    for (size_t i = 0; i < figures->thread_count; i++) {
        if (strcmp(figures->threads[i].name, name) == 0) {
            return &figures->threads[i];
        }
    }
    return NULL;
}

static void test_memory_that_is_used_is_resident(void **state)
{
    struct process_figures before;
    struct process_figures after;
    char *block =
        mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(block, MAP_FAILED);
    process_look(&before);
    memset(block, 1, BLOCK_BYTES);
    process_look(&after);
    assert_true(before.resident_bytes > 0 && before.virtual_bytes > before.resident_bytes);
    /* ThreadSanitizer keeps up to four more bytes for each that is touched. */
    assert_in_range(after.resident_bytes, before.resident_bytes + BLOCK_BYTES / 2,
                    before.resident_bytes + 8L * BLOCK_BYTES);
    (void)munmap(block, BLOCK_BYTES);
}

static void test_descriptors_are_counted(void **state)
{
    struct process_figures before;
    struct process_figures after;
    struct rlimit limit;
    int fds[DESCRIPTORS];

    (void)state;
    process_look(&before);
    for (unsigned i = 0; i < DESCRIPTORS; i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(fds[i] >= 0);
    }
    process_look(&after);
    for (unsigned i = 0; i < DESCRIPTORS; i++) {
        close(fds[i]);
    }
    assert_int_equal(after.open_descriptors, before.open_descriptors + DESCRIPTORS);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(after.max_descriptors, limit.rlim_cur);
}

/* A thread whose name is hostile, and is busy until it is told to end. */
static void *busy(void *data)
{
    (void)pthread_setname_np(pthread_self(), "a) \"b\n1 (");
    while (!atomic_load((_Atomic bool *)data)) {
        continue;
    }
    return NULL;
}

static void test_processor_time_by_the_names_of_threads(void **state)
{
    static const char name[] = "a___b_1__";
    struct process_figures figures;
    const struct process_thread *thread;
    _Atomic bool over = false;
    pthread_t ids[2];

    (void)state;
    assert_int_equal(pthread_create(&ids[0], NULL, busy, &over), 0);
    assert_int_equal(pthread_create(&ids[1], NULL, busy, &over), 0);
    do { /* until it shows: some ticks; the unit tests' guard ends one that never does */
        process_look(&figures);
        thread = find(&figures, name);
    } while (thread == NULL || thread->cpu_us < 50000);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(ids[0], NULL), 0);
    assert_int_equal(pthread_join(ids[1], NULL), 0);
    assert_true(figures.cpu_us >= 40000);
    for (size_t i = 0; i < figures.thread_count;
         i++) { /* both are in the one place of their name */
        assert_ptr_equal(find(&figures, figures.threads[i].name), &figures.threads[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_that_is_used_is_resident),
        cmocka_unit_test(test_descriptors_are_counted),
        cmocka_unit_test(test_processor_time_by_the_names_of_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

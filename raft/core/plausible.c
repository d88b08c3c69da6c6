/*
 * plausible.c - see plausible.h. Thread: pure functions, one owner.
 */
#include "raft/core/plausible.h"

#include <string.h>

#include "src/base/assert.h"
#include "src/base/limits.h"

_Static_assert(LIMIT_PLAUSIBLE <= UINT64_MAX / 4, "sums of two believed numbers do not wrap");

static uint64_t above(uint64_t number, uint64_t by)
{
    return number < LIMIT_PLAUSIBLE - 1 && by < LIMIT_PLAUSIBLE - 1 - number ? number + by
                                                                             : LIMIT_PLAUSIBLE - 1;
}

void plausible_init(struct plausible *plausible, uint64_t now_ms)
{
    *plausible = (struct plausible){.left = LIMIT_PLAUSIBLE_JUMP, .updated_ms = now_ms};
}

/* Let time go by: what was used grows back, and further while refusals go on. */
static void catch_up(struct plausible *plausible, uint64_t now_ms)
{
    uint64_t ms = now_ms > plausible->updated_ms ? now_ms - plausible->updated_ms : 0;
    bool grows = false;

    plausible->updated_ms = now_ms;
    if (plausible->refusing && now_ms - plausible->refused_ms > LIMIT_PLAUSIBLE_WAIT_MS) {
        plausible->refusing = false;
    }
    if (plausible->refusing) {
        grows = now_ms - plausible->refused_since_ms >= LIMIT_PLAUSIBLE_WAIT_MS;
    }
    plausible->left = above(plausible->left, ms * LIMIT_PLAUSIBLE_RISE_PER_MS);
    if (!grows && plausible->left > LIMIT_PLAUSIBLE_JUMP) {
        plausible->left = LIMIT_PLAUSIBLE_JUMP;
    }
    ASSERT(plausible->left < LIMIT_PLAUSIBLE);
    ASSERT_IMPLIES(plausible->refusing, plausible->refused_since_ms <= plausible->refused_ms);
}

uint64_t plausible_term(struct plausible *plausible, uint64_t own, bool has_log, uint64_t now_ms)
{
    catch_up(plausible, now_ms);
    return has_log ? above(own, plausible->left) : LIMIT_PLAUSIBLE - 1;
}

void plausible_rose(struct plausible *plausible, uint64_t by)
{
    plausible->left -= by < plausible->left ? by : plausible->left;
}

void plausible_refused(struct plausible *plausible, uint64_t now_ms)
{
    catch_up(plausible, now_ms);
    if (!plausible->refusing) {
        plausible->refusing = true;
        plausible->refused_since_ms = now_ms;
    }
    plausible->refused_ms = now_ms;
}

uint64_t plausible_index(uint64_t last)
{
    return last > 0 ? above(last, LIMIT_PLAUSIBLE_JUMP) : LIMIT_PLAUSIBLE - 1;
}

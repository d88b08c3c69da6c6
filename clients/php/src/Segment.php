<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids of a tag, from ranges that were fetched ahead.
 *
 * Of each range there is a counter, the next id, under a name with the range's last id; the state has
 * the last ids of an answer. An id belongs to the process that moved the counter on from it. No two
 * ranges have the same last id, so a counter never comes back with other ids: what was read before it
 * was dropped cannot be taken afterwards.
 *
 * PHP has no threads, so ranges are asked for by the call that finds none.
 */
final class Segment
{
    private const LOOK_MS = 2; // while another process asks

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly Shelf $shelf,
        private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        $this->nodes->enter();
        $id = $this->held() ?? $this->fetched($this->nodes->deadline($deadlineMs));
        $this->nodes->counters['ids_segment']++;
        return $id;
    }

    /** @return list<int> */
    public function nextMany(int $count, ?int $deadlineMs = null): array
    {
        $this->nodes->enter();
        Settings::whole('count', $count, 1, Settings::COUNT_MAX);
        $deadline = $this->nodes->deadline($deadlineMs);
        $ids = [];
        try {
            while (count($ids) < $count) {
                $ids[] = $this->held() ?? $this->fetched($deadline);
            }
        } catch (LeafdException $error) {
            $this->nodes->counters['burnt'] += count($ids);
            throw $error;
        }
        $this->nodes->counters['ids_segment'] += $count;
        return $ids;
    }

    /** @return array{int, int} first and last of one range, by a request of its own */
    public function nextRange(int $count, ?int $deadlineMs = null): array
    {
        $this->nodes->enter();
        Settings::whole('count', $count, 1, Settings::COUNT_MAX);
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        try {
            $range = $this->ask($count, '&contiguous=1', $deadline)->range($count);
        } catch (LeafdException $error) {
            throw $this->nodes->failed($error);
        }
        $this->nodes->counters['ids_segment'] += $count;
        return $range;
    }

    /** @internal What is held is dropped, if nobody shares it. */
    public function end(): void
    {
        if ($this->shelf->isShared()) {
            return;
        }
        foreach ($this->state()['lasts'] ?? [] as $last) {
            $id = $this->shelf->get($this->counter($last));
            $this->nodes->counters['burnt'] += $id === null ? 0 : $last - $id + 1;
            $this->shelf->drop($this->counter($last));
        }
    }

    private function counter(int $last): string
    {
        return "next $last $this->tag";
    }

    private function state(): ?array
    {
        return $this->shelf->get("state $this->tag");
    }

    /** An id of those that are held; null: there is none. */
    private function held(): ?int
    {
        foreach ($this->state()['lasts'] ?? [] as $last) {
            $counter = $this->counter($last);
            while (($id = $this->shelf->get($counter)) !== null && $id <= $last) {
                if ($id === $last ? $this->shelf->drop($counter)
                    : $this->shelf->change($counter, $id, $id + 1)) {
                    return $id;
                }
            }
        }
        return null;
    }

    /** An id of a new range, or of one that another process fetched meanwhile. */
    private function fetched(int $deadline): int
    {
        $this->nodes->counters['waits']++;
        try {
            for (;;) {
                if ($this->shelf->lock("lock $this->tag")) {
                    try {
                        // Meanwhile another one may have.
                        return $this->held() ?? $this->fetch($deadline);
                    } finally {
                        $this->shelf->drop("lock $this->tag");
                    }
                }
                if (hrtime(true) >= $deadline) {
                    throw new LeafdException('unreachable', 'no ids came by the deadline: another ' .
                        'process asks for them');
                }
                $this->nodes->pause(self::LOOK_MS, $deadline);
                if (($id = $this->held()) !== null) {
                    return $id;
                }
            }
        } catch (LeafdException $error) {
            throw $this->nodes->failed($error);
        }
    }

    /** The first id of a new range, whose others are put down. */
    private function fetch(int $deadline): int
    {
        $before = $this->state();
        $now = hrtime(true);
        $size = $this->size($before, $now);
        for (;;) {
            try {
                $ranges = $this->ask($size, '', $deadline)->ranges($size);
                break;
            } catch (LeafdException $error) {
                if ($error->getCode() !== 'exhausted' || $size === 1) {
                    throw $error;
                }
                $size = intdiv($size, 2);
            }
        }
        // The state names a range once its counter is there.
        foreach ($ranges as $at => [$first, $last]) {
            if ($at > 0 || $first < $last) {
                $this->shelf->put($this->counter($last), $at > 0 ? $first : $first + 1);
            }
        }
        $this->shelf->put("state $this->tag", ['lasts' => array_column($ranges, 1), 'size' => $size, 'at' => $now]);
        foreach (array_diff($before['lasts'] ?? [], array_column($ranges, 1)) as $last) {
            $this->shelf->drop($this->counter($last));
        }
        return $ranges[0][0];
    }

    private function ask(int $count, string $more, int $deadline): Answer
    {
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count&format=range$more";
        return $this->nodes->call(['GET', $target, [], null], $deadline);
    }

    /** How many to ask for: the rate since the last request, within half and twice its size. */
    private function size(?array $before, int $now): int
    {
        $set = $this->nodes->settings->numbers;
        if ($before === null) {
            return $set['min_count'];
        }
        $rate = $before['size'] / max(1, $now - $before['at']); // a nanosecond
        $wanted = $rate * $set['cover_ms'] * 1e6;
        $wanted = (int)max(intdiv($before['size'], 2), min(2 * $before['size'], $wanted));
        return max($set['min_count'], min($set['max_count'], $wanted));
    }
}

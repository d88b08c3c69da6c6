<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids of a tag, from ranges that were fetched ahead.
 *
 * Of each range there is a counter, the next id, under a name with the range's last id; the state has
 * the ranges of an answer. An id belongs to the process that moved the counter on from it. No two
 * ranges have the same last id, so a counter never comes back with other ids: what was read before it
 * was dropped cannot be taken afterwards.
 *
 * PHP has no threads, so ranges are asked for by the call that finds none.
 */
final class Segment
{
    private const LOOK_MS = 2; // while another process asks

    private bool $closed = false;
    private bool $failing = false; // refill_failed was told

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly Shelf $shelf,
        private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        $this->nodes->enter($this->closed);
        $id = $this->held() ?? $this->fetched($this->nodes->deadline($deadlineMs));
        $this->nodes->counters['ids_segment']++;
        return $id;
    }

    /** @return list<int> */
    public function nextMany(int $count, ?int $deadlineMs = null): array
    {
        $this->nodes->enter($this->closed);
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

    /** @return array{int, int, int} first, last and increment of one range, by a request of its own */
    public function nextRange(int $count, ?int $deadlineMs = null): array
    {
        $this->nodes->enter($this->closed);
        Settings::whole('count', $count, 1, Settings::COUNT_MAX);
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        try {
            $answer = $this->ask($count, '&contiguous=1', $deadline, $stepped);
            $range = $answer->range($count, $stepped);
        } catch (LeafdException $error) {
            if ($error->getCode() === 'paused') {
                $this->drop($this->state());
            }
            throw $this->nodes->failed($error);
        }
        $this->see($answer, $stepped);
        $this->nodes->counters['ids_segment'] += $count;
        return $range;
    }

    /** What is held is dropped, if nobody shares it; calls fail with "closed" from then on. */
    public function close(): void
    {
        if (!$this->closed && !$this->shelf->isShared()) {
            $this->drop($this->state());
        }
        $this->closed = true;
    }

    /** @internal What is held is dropped. */
    public function forget(): void
    {
        $this->drop($this->state());
    }

    /** @internal */
    public function isClosed(): bool
    {
        return $this->closed;
    }

    /** @internal @return array<string, float|string> */
    public function gauges(): array
    {
        $state = $this->state();
        $left = $this->left($state);
        return ['tag' => $this->tag, 'ids_left' => $left,
            'range_age_seconds' => $left === 0 ? 0 : (hrtime(true) - $state['sent']) / 1e9];
    }

    private function counter(int $last): string
    {
        return "next $last $this->tag";
    }

    /** Null, or: ranges (last, increment), size, sent and got (hrtime), generation, stepped. */
    private function state(): ?array
    {
        return $this->shelf->get("state $this->tag");
    }

    /** An id of those that are held; null: there is none. */
    private function held(): ?int
    {
        $state = $this->state();
        if ($state === null || $state['ranges'] === []) {
            return null;
        }
        if (hrtime(true) - $state['sent'] > $this->nodes->settings->numbers['max_age_ms'] * 1_000_000) {
            $this->drop($state, 'aged');
            return null;
        }
        foreach ($state['ranges'] as [$last, $step]) {
            $counter = $this->counter($last);
            while (($id = $this->shelf->get($counter)) !== null && $id <= $last) {
                if ($id === $last ? $this->shelf->drop($counter)
                    : $this->shelf->change($counter, $id, $id + $step)) {
                    return $id;
                }
            }
        }
        return null;
    }

    private function left(?array $state): int
    {
        $left = 0;
        foreach ($state['ranges'] ?? [] as [$last, $step]) {
            $id = $this->shelf->get($this->counter($last));
            $left += $id === null ? 0 : intdiv($last - $id, $step) + 1;
        }
        return $left;
    }

    /** What is held of this state is burnt, by this event; what was learnt stays. */
    private function drop(?array $state, ?string $event = null): void
    {
        $ids = 0;
        foreach ($state['ranges'] ?? [] as [$last, $step]) {
            $id = $this->shelf->get($this->counter($last));
            if ($this->shelf->drop($this->counter($last)) && $id !== null) {
                $ids += intdiv($last - $id, $step) + 1;
            }
        }
        $this->nodes->counters['burnt'] += $ids;
        if ($ids > 0 && $event !== null) {
            $this->nodes->tell($event, ['tag' => $this->tag, 'ids' => $ids]);
        }
    }

    private function noIds(string $code): void
    {
        if (!$this->failing) {
            $this->failing = true;
            $this->nodes->tell('refill_failed', ['tag' => $this->tag, 'code' => $code]);
        }
    }

    /** An answer's generation ends what is held of an older one; it and the steps are kept. */
    private function see(Answer $answer, bool $stepped): void
    {
        $state = $this->state() ?? ['ranges' => [], 'size' => 0, 'sent' => 0, 'got' => 0,
            'generation' => null, 'stepped' => false];
        if ($answer->generation !== null && $answer->generation > ($state['generation'] ?? -1)) {
            if ($state['generation'] !== null) {
                $this->drop($state, 'generation');
            }
            $state['generation'] = $answer->generation;
        } elseif ($stepped === $state['stepped']) {
            return;
        }
        $this->shelf->put("state $this->tag", ['stepped' => $stepped] + $state);
    }

    /** An id of a new range, or of one that another process fetched meanwhile. */
    private function fetched(int $deadline): int
    {
        $this->nodes->counters['waits']++;
        try {
            for (;;) {
                if ($this->shelf->lock("lock $this->tag")) {
                    // Meanwhile another one may have.
                    return $this->nodes->quietly(fn () => $this->held() ?? $this->fetch($deadline),
                        fn () => $this->shelf->drop("lock $this->tag"));
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
            $this->noIds($error->getCode());
            throw $this->nodes->failed($error);
        }
    }

    /** The first id of a new range, whose others are put down. */
    private function fetch(int $deadline): int
    {
        $before = $this->state();
        $size = $this->size($before);
        for (;;) {
            $sent = hrtime(true);
            try {
                $answer = $this->ask($size, '', $deadline, $stepped);
                $ranges = $answer->ranges($size, $stepped);
                break;
            } catch (LeafdException $error) {
                if ($error->getCode() !== 'exhausted' || $size === 1) {
                    throw $error;
                }
                $size = intdiv($size, 2);
            }
        }
        if ($this->failing) {
            $this->failing = false;
            $this->nodes->tell('recovered', ['tag' => $this->tag]);
        }
        $this->drop($before);
        // The state names a range once its counter is there.
        foreach ($ranges as $at => [$first, $last, $step]) {
            if ($at > 0 || $first < $last) {
                $this->shelf->put($this->counter($last), $at > 0 ? $first : $first + $step);
            }
        }
        $generation = $answer->generation ?? $before['generation'] ?? null;
        $this->shelf->put("state $this->tag", ['size' => $size, 'sent' => $sent, 'got' => hrtime(true),
            'generation' => $generation, 'stepped' => $stepped,
            'ranges' => array_map(static fn ($range) => [$range[1], $range[2]], $ranges)]);
        return $ranges[0][0];
    }

    /** $stepped: have the lines increments? */
    private function ask(int $count, string $more, int $deadline, ?bool &$stepped): Answer
    {
        $stepped = $this->state()['stepped'] ?? false;
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count&format=range$more";
        return $this->nodes->callForSteps(['GET', $target, [], null], $deadline, $stepped,
            function (Answer $answer) use ($count): ?string {
                $seen = $this->state()['generation'] ?? 0;
                if ($answer->generation === null || $answer->generation >= $seen) {
                    return null;
                }
                $this->nodes->counters['burnt'] += $count;
                return "ids of generation $answer->generation, older than $seen";
            }, fn () => $this->noIds('unreachable'));
    }

    /** How many to ask for: the rate since the last answer, within half and twice its size. */
    private function size(?array $before): int
    {
        $set = $this->nodes->settings->numbers;
        if ($before === null || $before['size'] === 0) {
            return $set['min_count'];
        }
        $rate = $before['size'] / max(1, hrtime(true) - $before['got']); // a nanosecond
        $wanted = $rate * $set['cover_ms'] * 1e6;
        $wanted = (int)max(intdiv($before['size'], 2), min(2 * $before['size'], $wanted));
        return max($set['min_count'], min($set['max_count'], $wanted));
    }
}

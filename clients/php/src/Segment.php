<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids of a tag, from ranges that were fetched ahead: one in use and a spare one.
 *
 * Of each range there is a counter, the next id, under a name with the range's last id; the state has
 * the ranges of the answers. An id belongs to the process that moved the counter on from it. No two
 * ranges have the same last id, so a counter never comes back with other ids: what was read before it
 * was dropped cannot be taken afterwards.
 *
 * PHP has no threads: a request for ids is a task of Wire's, which continues with each call. The process
 * that asks has the tag's lock; while it calls nothing, one that waits asks as well, by a second lock. Of
 * two requests the later answer becomes the spare one if it is above the other, or is burnt.
 */
final class Segment
{
    private const LOOK_NS = 2_000_000; // while another process asks
    private const ERROR_NS = 1_000_000_000; // for which an error holds
    private const HELD_MAX = 2; // answers
    private const NOTHING = ['held' => [], 'size' => 0, 'base' => 0, 'since' => 0, 'generation' => null,
        'stepped' => false, 'taken' => 0, 'highest' => -1];

    private bool $closed = false;
    private bool $failing = false; // refill_failed was told
    private ?string $lock = null; // that this process has
    private int $given = -1; // the last id that this process gave, and
    private int $givenTaken = 0; // when its answer was put down
    /** @var list<Task> two at most, one of them wanted at most but for a second one */
    private array $asking = [];
    private ?LeafdException $error = null; // of the last request
    private int $errorUntil = 0;
    private ?LeafdException $unreachable = null;

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly Shelf $shelf,
        private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        $this->nodes->enter($this->closed);
        $id = $this->held() ?? $this->waited($this->nodes->deadline($deadlineMs));
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
                $ids[] = $this->held() ?? $this->waited($deadline);
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
            [$answer, $stepped] = $this->ask($count, '&contiguous=1', $deadline);
            $range = $answer->range($count, $stepped);
        } catch (LeafdException $error) {
            $this->dropIfPaused($error);
            throw $this->nodes->failed($error);
        }
        $this->see($answer, $stepped);
        $this->nodes->counters['ids_segment'] += $count;
        return $range;
    }

    /** What is held is dropped, if nobody shares it; calls fail with "closed" from then on. */
    public function close(): void
    {
        if (!$this->closed) {
            $this->end(hrtime(true) + $this->nodes->settings->numbers['connect_ms'] * 1_000_000);
            $this->closed = true; // what still comes is burnt, or left to those that share it
            if (!$this->shelf->isShared()) {
                $this->drop();
            }
        }
    }

    /** @internal What the requests under way bring is left to the processes that share it; $until: no longer. */
    public function end(int $until): void
    {
        $this->settle(); // a child has no lock of its parent's
        while ($this->shelf->isShared() && $this->lock !== null && hrtime(true) < $until) {
            $this->nodes->wire->waitUntil($until);
            $this->settle();
        }
        $this->unlock();
    }

    /** @internal What is held is dropped. */
    public function forget(): void
    {
        $this->settle();
        $this->drop();
    }

    /** @internal */
    public function isClosed(): bool
    {
        return $this->closed;
    }

    /** @internal @return array<string, float|string> */
    public function gauges(): array
    {
        $held = $this->filled($this->state());
        return ['tag' => $this->tag, 'ids_left' => $this->left($held),
            'range_age_seconds' => $held === [] ? 0 : (hrtime(true) - min(array_column($held, 'sent'))) / 1e9];
    }

    private function counter(int $last): string
    {
        return "next $last $this->tag";
    }

    /**
     * As NOTHING: held (sent, taken, size, and its ranges: last, increment, ids of those after it), the size last
     * asked for; of the rate: ids that were held at a time, and that time; generation, stepped; when the last
     * answer was put down, and the highest id of all.
     */
    private function state(): array
    {
        return $this->shelf->get("state $this->tag") ?? self::NOTHING;
    }

    private function put(array $state): void
    {
        $this->shelf->put("state $this->tag", $state);
    }

    /** An id of those that are held; null: there is none. */
    private function held(): ?int
    {
        if ($this->asking !== []) {
            $this->settle();
        }
        $held = $this->state()['held'];
        $oldest = hrtime(true) - $this->nodes->settings->numbers['max_age_ms'] * 1_000_000;
        foreach ($held as $at => $answer) {
            if ($answer['sent'] < $oldest) {
                $this->drop('aged', [$answer]);
                continue;
            }
            foreach ($answer['ranges'] as [$last, $step, $after]) {
                $counter = $this->counter($last);
                while (($id = $this->shelf->get($counter)) !== null && $id <= $last) {
                    if ($id === $last ? $this->shelf->drop($counter)
                        : $this->shelf->change($counter, $id, $id + $step)) {
                        if ($this->isLow($id, $answer['sent'])) {
                            $this->nodes->counters['burnt']++;
                            continue;
                        }
                        [$this->given, $this->givenTaken] = [$id, $answer['taken'] ?? 0];
                        if (!isset($held[$at + 1]) && 2 * (intdiv($last - $id, $step) + $after) < $answer['size']) {
                            $this->begin();
                        }
                        return $id;
                    }
                }
            }
        }
        return null;
    }

    /** This process gave a higher id, of an answer that came while this one was asked for. (The state says so as
     * well, but what is shared may be lost.) */
    private function isLow(int $id, int $sent): bool
    {
        return $id < $this->given && $sent < $this->givenTaken;
    }

    /** The answers of which ids are left. */
    private function filled(array $state): array
    {
        return array_values(array_filter($state['held'], fn ($answer) => $this->left([$answer]) > 0));
    }

    private function left(array $held): int
    {
        $left = 0;
        foreach ($held as $answer) {
            foreach ($answer['ranges'] as [$last, $step]) {
                $id = $this->shelf->get($this->counter($last));
                $left += $id === null ? 0 : intdiv($last - $id, $step) + 1;
            }
        }
        return $left;
    }

    /** What is held, or of these answers, is burnt, by this event; what was learnt stays. */
    private function drop(?string $event = null, ?array $held = null): void
    {
        $ids = 0;
        foreach ($held ?? $this->state()['held'] as $answer) {
            foreach ($answer['ranges'] as [$last, $step]) {
                $id = $this->shelf->get($this->counter($last));
                if ($this->shelf->drop($this->counter($last)) && $id !== null) {
                    $ids += intdiv($last - $id, $step) + 1;
                }
            }
        }
        $this->nodes->counters['burnt'] += $ids;
        if ($ids > 0 && $event !== null) {
            $this->nodes->tell($event, ['tag' => $this->tag, 'ids' => $ids]);
        }
    }

    /** A tag that is paused: what is held of it, or was asked for by now, is not handed out. The moment is put
     * down before what is held is looked for, as take() does these two the other way round. */
    private function dropIfPaused(LeafdException $error): void
    {
        if ($error->getCode() === 'paused') {
            $this->shelf->put("paused $this->tag", hrtime(true));
            $this->drop();
        }
    }

    private function isPaused(Task $task): bool
    {
        return $task->askedAt <= ($this->shelf->get("paused $this->tag") ?? 0);
    }

    private function noIds(string $code): void
    {
        if (!$this->failing && !$this->closed) {
            $this->failing = true;
            $this->nodes->tell('refill_failed', ['tag' => $this->tag, 'code' => $code]);
        }
    }

    /** An answer's generation ends what is held of an older one; it and the steps are kept. */
    private function see(Answer $answer, bool $stepped): void
    {
        $state = $this->state();
        $seen = $state['generation'] ?? -1;
        $isNewer = ($answer->generation ?? -1) > $seen;
        if ($isNewer || $stepped !== $state['stepped']) {
            $this->put(['stepped' => $stepped] +
                ($isNewer ? ['generation' => $answer->generation, 'highest' => -1] : []) + $state);
        }
        if ($isNewer && $seen >= 0) { // last: the hook may call
            $this->drop('generation', $state['held']);
        }
    }

    /** An id that is held, or comes by the deadline. */
    private function waited(int $deadline): int
    {
        $this->nodes->counters['waits']++;
        $began = hrtime(true);
        try {
            for (;;) {
                if (($id = $this->settle(true) ?? $this->held()) !== null) {
                    return $id;
                }
                if ($this->closed) { // by a hook for events
                    throw new LeafdException('closed', 'the source was closed');
                }
                if ($this->error !== null && hrtime(true) < $this->errorUntil) {
                    throw new LeafdException($this->error->getCode(), $this->error->getMessage(),
                        $this->error->status);
                }
                if (hrtime(true) >= $deadline) {
                    $task = reset($this->asking) ?: null; // whose own end may be a moment later
                    throw $task?->quota ?? ($task?->failures ? Nodes::unreachable($task)
                        : $this->unreachable ?? Nodes::unreachable($task));
                }
                $this->nodes->wire->waitUntil($this->askedUntil($began, $deadline));
            }
        } catch (LeafdException $error) {
            $this->noIds($error->getCode());
            throw $this->nodes->failed($error);
        }
    }

    /** Ids are asked for, for a caller who waits since $began until $deadline: when to look again. */
    private function askedUntil(int $began, int $deadline): int
    {
        $wanted = array_filter($this->asking, static fn (Task $task) => $task->wanted);
        if ($wanted === []) {
            $waited = hrtime(true) - $began;
            $isLong = $waited >= max($this->nodes->patience(),
                $this->nodes->settings->numbers['connect_ms'] * 1_000_000);
            return $this->begin($isLong) ? hrtime(true) : min($deadline, hrtime(true) + self::LOOK_NS);
        }
        $size = $this->state()['size'];
        $until = $this->nodes->second($this->asking, fn () => $this->grant($size), $deadline,
            $this->nodes->deadline(null));
        foreach ($this->asking as $task) {
            $task->callerUntil = $deadline;
        }
        return $until;
    }

    /** Asks for ids, unless this or another process does, or a spare answer is here; false: another one does.
     * $second: beside one other process. */
    private function begin(bool $second = false): bool
    {
        $wanted = array_filter($this->asking, static fn (Task $task) => $task->wanted);
        if ($this->closed || $wanted !== [] || ($this->error !== null && hrtime(true) < $this->errorUntil)) {
            return true;
        }
        foreach ($second ? ['lock', 'second lock'] : ['lock'] as $lock) {
            if ($this->lock === null && $this->shelf->lock("$lock $this->tag")) {
                $this->lock = "$lock $this->tag";
            }
        }
        if ($this->lock === null) {
            return false;
        }
        $state = $this->state();
        $held = $this->filled($state);
        $left = $this->left($held);
        if (count($held) > 1 || ($held !== [] && 2 * $left >= $held[0]['size'])) {
            $this->unlock(); // meanwhile another one has
            return true;
        }
        $size = $this->size($state, $left);
        $this->put(['held' => $held, 'size' => $size, 'base' => $left, 'since' => hrtime(true)] + $state);
        $this->error = null;
        $this->asking[] = $this->nodes->wire->begin(fn () => $this->grant($size), $this->nodes->deadline(null));
        return true;
    }

    private function unlock(): void
    {
        if ($this->lock !== null) {
            $this->shelf->drop($this->lock);
            $this->lock = null;
        }
    }

    /** @internal Takes what requests under way have brought. $waits: the first id is for a caller. */
    public function settle(bool $waits = false): ?int
    {
        $this->nodes->wire->pump();
        $id = null;
        $this->nodes->quiet = true; // the hook may ask for ids
        $over = array_filter($this->asking, static fn (Task $task) => $task->isOver);
        // That the tag is paused comes first: the program may not have called since.
        uasort($over, static fn (Task $one, Task $other) =>
            ($other->error?->getCode() === 'paused') <=> ($one->error?->getCode() === 'paused'));
        foreach ($over as $at => $task) {
            unset($this->asking[$at]);
            if ($task->isLost()) {
                $this->lock = null; // its parent has it
            } elseif ($task->error !== null) {
                $this->refused($task);
            } else {
                $id = $this->take($task, $waits && $id === null) ?? $id;
            }
        }
        if (array_filter($this->asking, static fn (Task $task) => $task->wanted) === []) {
            $this->unlock();
        }
        $this->nodes->quiet = false;
        $this->nodes->giveEvents();
        return $id;
    }

    private function refused(Task $task): void
    {
        $error = $task->error;
        $this->dropIfPaused($error);
        if (!$task->wanted) {
            return;
        }
        $this->noIds($error->getCode());
        if (in_array($error->getCode(), ['unreachable', 'quota'], true)) {
            $this->unreachable = $error;
        } elseif ($error->isFinal() || $this->asking === []) {
            [$this->error, $this->errorUntil] = [$error, hrtime(true) + self::ERROR_NS];
        }
    }

    /** Puts down what the task brought; $waits: but for the first id, which is for a caller. */
    private function take(Task $task, bool $waits): ?int
    {
        [$answer, $stepped, $ranges, $size] = $task->value;
        $this->see($answer, $stepped);
        $state = $this->state() + self::NOTHING; // a web server may still have that of an older library
        $held = $this->filled($state);
        $last = $held === [] ? -1 : end($held[0]['ranges'])[0];
        // Another answer came while it was asked for: its ids would come after higher ones. (None of a right
        // server ends where another one does.)
        $low = $state['taken'] > $task->began ? $ranges[0][0] <= $state['highest'] : end($ranges)[1] === $last;
        if (($this->closed && !$this->shelf->isShared()) || $low || count($held) === self::HELD_MAX ||
            $this->isPaused($task) || $this->isLow($ranges[0][0], $task->askedAt) ||
            ($answer->generation ?? PHP_INT_MAX) < $state['generation']) {
            $this->nodes->counters['burnt'] += $size;
            return null;
        }
        $this->unreachable = null;
        if ($this->failing) {
            $this->failing = false;
            $this->nodes->tell('recovered', ['tag' => $this->tag]);
        }
        $id = $waits && $held === [] ? $ranges[0][0] : null;
        $after = $size;
        // The state names a range once its counter is there.
        foreach ($ranges as $at => [$first, $last, $step]) {
            $after -= intdiv($last - $first, $step) + 1;
            $ranges[$at] = [$last, $step, $after];
            $first += $first === $id ? $step : 0;
            if ($first <= $last) {
                $this->shelf->put($this->counter($last), $first);
            }
        }
        $idle = $held === [] ? ['since' => hrtime(true), 'base' => $size] : ['base' => $state['base'] + $size];
        $taken = hrtime(true);
        $held[] = ['sent' => $task->askedAt, 'taken' => $taken, 'size' => $size, 'ranges' => $ranges];
        $this->put(['held' => $held, 'taken' => $taken, 'highest' => max($state['highest'], $last)] + $idle +
            ($task->wanted ? ['size' => $size] : []) + $state);
        $other = null;
        foreach ($task->wanted ? $this->asking : [] as $one) {
            $other = $one->wanted ? $one : $other;
            $one->wanted = false;
        }
        $this->nodes->prefer($task, $other);
        if ($this->isPaused($task)) { // since it was looked at, by another process
            $this->drop(null, [end($held)]);
            $this->nodes->counters['burnt'] += $id === null ? 0 : 1;
            return null;
        }
        if ($id !== null) {
            [$this->given, $this->givenTaken] = [$id, $taken];
        }
        return $id;
    }

    /** In a task: ids of this size, or of less where the tag has no more. */
    private function grant(int $size): array
    {
        for (;;) {
            try {
                [$answer, $stepped] = $this->ask($size, '', 0);
                return [$answer, $stepped, $answer->ranges($size, $stepped), $size];
            } catch (LeafdException $error) {
                if ($error->getCode() !== 'exhausted' || $size === 1) {
                    throw $error;
                }
                $size = intdiv($size, 2);
            }
        }
    }

    /** @return array{Answer, bool} have its lines increments? */
    private function ask(int $count, string $more, int $deadline): array
    {
        $stepped = $this->state()['stepped'];
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count&format=range$more";
        $answer = $this->nodes->callForSteps(['GET', $target, [], null], $deadline, $stepped,
            function (Answer $answer) use ($count, $more, &$stepped): ?string {
                $why = $this->refuses($answer, $count, $stepped, $more !== '');
                $this->nodes->counters['burnt'] += $why === null ? 0 : $count;
                return $why;
            }, fn () => $this->noIds('unreachable'));
        return [$answer, $stepped];
    }

    /** Why an answer is not taken: it is of an older generation than one before, or has ids that came before. */
    private function refuses(Answer $answer, int $count, bool $stepped, bool $one): ?string
    {
        $seen = $this->state()['generation'] ?? 0;
        if ($answer->generation !== null && $answer->generation < $seen) {
            return "ids of generation $answer->generation, older than $seen";
        }
        try {
            $ranges = $one ? [$answer->range($count, $stepped)] : $answer->ranges($count, $stepped);
        } catch (LeafdException) {
            return null; // whoever reads it says so
        }
        $given = $this->shelf->get("given $this->tag") ?? [];
        $why = Given::again($given, $answer, $ranges, null);
        $this->shelf->put("given $this->tag", $given);
        return $why;
    }

    /** How many to ask for: the rate while ids were held, since the last request or the answer after it,
     * within half and twice its size. */
    private function size(array $state, int $left): int
    {
        $set = $this->nodes->settings->numbers;
        if ($state['size'] === 0) {
            return $set['min_count'];
        }
        $rate = max(0, $state['base'] - $left) / max(1, hrtime(true) - $state['since']); // a nanosecond
        $wanted = $rate * $set['cover_ms'] * 1e6;
        $wanted = (int)max(intdiv($state['size'], 2), min(2 * $state['size'], $wanted));
        return max($set['min_count'], min($set['max_count'], $wanted));
    }
}

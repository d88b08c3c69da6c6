<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids by time, made in this process under a worker id of its own (docs/clients.md, Snowflake ids).
 *
 * One rule makes them unique: an id carries a time t with from < t <= until of the grant, and a
 * sequence that was not used in t before. It is about the number in the id, not about the moment at
 * which it is made. PHP has no threads: a call that comes when a renewal is due makes one attempt.
 */
final class Snowflake
{
    private const SMALL_STEP_MS = 5;
    private const LOOK_MS = 100;
    private const AGAIN_NS = 100_000_000; // after a renewal that failed

    private ?array $grant = null; // worker, epoch, from, until
    private array $layout;
    private int $lastMs = 0; // the highest time used, or from
    private bool $used = false;
    private int $at = 0; // the next sequence of lastMs
    private int $renewAt = 0;
    private int $process = 0;
    private string $heldAs = ''; // the name of the worker id's holder
    private bool $closed = false;
    private bool $behind = false; // clock_back was told

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly ?string $name)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        $this->enter();
        $deadline = $this->nodes->deadline($deadlineMs);
        $counted = [];
        try {
            for (;;) {
                if ($this->closed) { // by a hook for events, meanwhile
                    throw new LeafdException('closed', 'the source was closed');
                }
                if ($this->grant === null) {
                    $this->count('waits', $counted);
                    $this->acquire($deadline);
                }
                if (hrtime(true) >= $this->renewAt) {
                    $this->renew($deadline);
                    continue;
                }
                $waitMs = 0;
                $id = $this->step($waitMs);
                if ($id !== null) {
                    $this->nodes->counters['ids_snowflake']++;
                    return $id;
                }
                if (hrtime(true) >= $deadline) {
                    throw $this->windowOver();
                }
                if ($waitMs === null) { // only a renewal helps
                    $this->count('waits', $counted);
                    $this->nodes->pause(max(0, ($this->renewAt - hrtime(true)) / 1e6), $deadline);
                } else {
                    $this->count('clock_waits', $counted);
                    $this->nodes->pause($waitMs === 1 ? 0.2 : min($waitMs, self::LOOK_MS), $deadline);
                }
            }
        } catch (LeafdException $error) {
            throw $this->nodes->failed($error);
        }
    }

    /** @return array{timestampMs: int, workerId: int, sequence: int} by the cluster's layout */
    public function decode(int $id, ?int $deadlineMs = null): array
    {
        $this->enter();
        Settings::whole('id', $id, 0, PHP_INT_MAX);
        ['epoch' => $epoch, 'worker' => $worker, 'sequence' => $sequence] = $this->layout($deadlineMs);
        return ['timestampMs' => ($id >> ($worker + $sequence)) + $epoch,
            'workerId' => ($id >> $sequence) & ((1 << $worker) - 1), 'sequence' => $id & ((1 << $sequence) - 1)];
    }

    /** The smallest id of a time in Unix milliseconds, for scans of ids by time. */
    public function at(int $timeMs, ?int $deadlineMs = null): int
    {
        $this->enter();
        ['epoch' => $epoch, 'time' => $time, 'worker' => $worker, 'sequence' => $sequence] = $this->layout($deadlineMs);
        Settings::whole('timeMs', $timeMs, $epoch, $epoch + (1 << $time) - 1);
        return ($timeMs - $epoch) << ($worker + $sequence);
    }

    /** The cluster's; one that is not known yet comes with a worker id. */
    private function layout(?int $deadlineMs): array
    {
        if (!isset($this->layout)) {
            try {
                $this->acquire($this->nodes->deadline($deadlineMs));
            } catch (LeafdException $error) {
                throw $this->nodes->failed($error);
            }
        }
        return $this->layout;
    }

    /** Release the worker id, if it is this process's; calls fail with "closed" from then on. */
    public function close(): void
    {
        $this->closed = true;
        [$grant, $this->grant] = [$this->grant, null]; // a hook may close it again
        if ($grant !== null && $this->process === getmypid()) {
            $this->release($grant, $this->lastMs);
        }
    }

    /** @internal */
    public function isClosed(): bool
    {
        return $this->closed;
    }

    /** @internal @return array<string, float|string> */
    public function gauges(): array
    {
        return ['name' => $this->name ?? $this->heldAs,
            'window_end_seconds' => ($this->grant['until'] ?? 0) / 1000];
    }

    /** A child has no worker id of its parent's. */
    private function enter(): void
    {
        $this->nodes->enter($this->closed);
        if ($this->process !== getmypid()) {
            $this->process = getmypid();
            $this->grant = null;
        }
    }

    private function count(string $name, array &$counted): void
    {
        $this->nodes->counters[$name] += isset($counted[$name]) ? 0 : 1;
        $counted[$name] = true;
    }

    private static function wallMs(): int
    {
        return (int)floor(microtime(true) * 1000);
    }

    /** An id, or null and how long to wait for the clock; null: the window is over. */
    private function step(?int &$waitMs): ?int
    {
        $now = self::wallMs();
        ['epoch' => $epoch, 'time' => $timeBits, 'worker' => $workerBits, 'sequence' => $bits] = $this->layout;
        if ($now > $this->lastMs) {
            if ($now > $this->grant['until']) {
                $waitMs = null;
                return null;
            }
            if ($now - $epoch >= 1 << $timeBits) {
                throw new LeafdException('epoch_exhausted', "the layout's time is over");
            }
            $full = $this->used && $this->at === 1 << $bits && $now === $this->lastMs + 1;
            $this->at = $full ? 0 : random_int(0, (1 << $bits) - 1);
            $this->lastMs = $now;
            $this->used = true;
            $this->behind = false;
        }
        $behindMs = $this->lastMs - $now;
        if ($behindMs > 0 && $behindMs <= self::SMALL_STEP_MS) {
            $waitMs = $behindMs;
            return null;
        }
        if ($behindMs > 0 && $this->used && !$this->behind) {
            $this->behind = true;
            $this->nodes->tell('clock_back', ['name' => $this->heldAs, 'ms' => $behindMs]);
        }
        if ($this->at === 1 << $bits) {
            $waitMs = $behindMs + 1;
            return null;
        }
        return (($this->lastMs - $epoch) << ($workerBits + $bits)) | ($this->grant['worker'] << $bits) |
            $this->at++;
    }

    private function windowOver(): LeafdException
    {
        return new LeafdException('window_over', "no id within the window of worker id " .
            "{$this->grant['worker']}, times above {$this->grant['from']} up to {$this->grant['until']}: " .
            'the clock shows ' . self::wallMs() . ", and times up to $this->lastMs are used");
    }

    /** A name of our own is new each time: an answer that was lost may have granted a window. */
    private function holder(): string
    {
        $host = substr(preg_replace('/[^\x21-\x7e]/', '', (string)gethostname()), 0, 64) ?: 'host';
        return $this->name ?? $host . '/' . getmypid() . '/' . bin2hex(random_bytes(8));
    }

    private function acquire(int $deadline): void
    {
        $windowMs = $this->nodes->settings->numbers['window_ms'];
        $this->heldAs = $this->holder();
        $body = json_encode(['name' => $this->heldAs, 'window_ms' => $windowMs], JSON_UNESCAPED_UNICODE);
        $grant = $this->nodes->call(['POST', '/api/workers', [], $body], $deadline, [201], 'admin')->grant();
        if ($this->closed) { // by a hook for events, meanwhile
            $this->release($grant, $grant['from']);
            throw new LeafdException('closed', 'the source was closed');
        }
        $first = $grant;
        // A node that makes no snowflake ids itself has no layout; a renewal's answer has one, too.
        $others = $this->nodes->count('admin') - 1;
        for (; $grant['layout'] === null && $others > 0; $others--) {
            $this->nodes->goOn('admin');
            $grant = $this->renewal($first, null, $deadline);
        }
        if ($grant['layout'] === null) {
            $this->release($first, $first['from']);
            throw new LeafdException('layout_unknown', "no node knows the layout of the cluster's ids: " .
                'each has snowflake.workers = 0');
        }
        $this->layout = $grant['layout'];
        $this->grant = ['from' => $first['from']] + $grant;
        $this->lastMs = max($first['from'], $this->layout['epoch']);
        $this->used = false;
        $this->at = 1 << $this->layout['sequence']; // of that time none may be used
        $this->renewAt = hrtime(true) + intdiv($windowMs * 1_000_000, 3);
    }

    private function renewal(array $grant, ?int $lastMs, int $deadline, int $tries = 0): array
    {
        $fields = ['epoch' => $grant['epoch'],
            'window_ms' => $this->nodes->settings->numbers['window_ms'], 'last_timestamp_ms' => $lastMs];
        $body = json_encode(array_filter($fields, static fn ($value) => $value !== null));
        $request = ['PUT', "/api/workers/{$grant['worker']}", [], $body];
        $answer = $this->nodes->call($request, $deadline, [200, 201], 'admin', $tries)->grant();
        if ($answer['worker'] !== $grant['worker'] || $answer['epoch'] !== $grant['epoch']) {
            throw new LeafdException('bad_answer', "renewed worker id {$grant['worker']}; the answer is of " .
                $answer['worker']);
        }
        return $answer;
    }

    /** One attempt: what fails is tried again while ids are left. */
    private function renew(int $deadline): void
    {
        $windowNs = $this->nodes->settings->numbers['window_ms'] * 1_000_000;
        $this->renewAt = hrtime(true) + self::AGAIN_NS; // for calls of a hook
        try {
            $grant = $this->renewal($this->grant, $this->used ? $this->lastMs : null, $deadline, 1);
            if ($this->closed) { // meanwhile: the worker id is released
                return;
            }
            $this->grant['until'] = max($this->grant['until'], $grant['until']);
            $this->renewAt = hrtime(true) + intdiv($windowNs, 3);
            $this->nodes->counters['renewals']++;
        } catch (LeafdException $error) {
            if ($this->closed) {
                return;
            }
            if ($this->process !== getmypid()) { // a hook has forked: the worker id is the parent's
                throw $error;
            }
            if (in_array($error->getCode(), ['fenced', 'unknown_worker'], true)) {
                $this->grant = null;
                $this->nodes->tell('fenced', ['name' => $this->heldAs]);
                throw new LeafdException('fenced', $error->getMessage(), $error->status);
            }
            $this->renewAt = hrtime(true) + self::AGAIN_NS;
            if (!in_array($error->getCode(), ['unreachable', 'quota'], true) &&
                self::wallMs() > $this->grant['until']) {
                throw $error;
            }
        }
    }

    /** What fails is left to the window's end. */
    private function release(array $grant, int $lastMs): void
    {
        $target = "/api/workers/{$grant['worker']}?epoch={$grant['epoch']}&last_timestamp_ms=$lastMs";
        $deadline = hrtime(true) + $this->nodes->settings->numbers['attempt_ms'] * 1_000_000;
        try {
            $this->nodes->call(['DELETE', $target, [], null], $deadline, [204], 'admin');
        } catch (LeafdException) {
            return;
        }
    }
}

<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Exchanges over libcurl, several at a time, and the tasks that wait for them.
 *
 * A task is a fiber. The happy path: begin() runs it until it has to wait; pump() resumes all tasks, and
 * never waits itself. waitUntil() suspends the task that calls it; called by the program, it resumes tasks
 * until then. Failure modes: a task that is abandoned ends where it waits, and its connection is closed; a
 * forked child has no tasks.
 */
final class Wire
{
    private int $process;
    private ?\CurlMultiHandle $multi = null;
    /** @var array<int, int> CURLE_... of exchanges that ended, by the number of the handle */
    private array $results = [];
    private int $open = 0; // exchanges that did not end yet
    /** @var array<int, Task> that are not over */
    private array $tasks = [];
    public ?Task $running = null; // null: the program itself

    /** @var list<array> of a parent: ending them would end its TLS connections */
    private static array $inherited = [];

    /** $afterwards: called outside of all tasks, after each pump() */
    public function __construct(private readonly \Closure $afterwards)
    {
        $this->process = getmypid();
    }

    public function begin(\Closure $do, int $deadline, ?string $url = null): Task
    {
        $this->enter();
        $task = new Task($do, $deadline, $url);
        $this->tasks[spl_object_id($task)] = $task;
        $this->resume($task);
        return $task;
    }

    /** What it would bring is not wanted any more. */
    public function abandon(Task $task): void
    {
        unset($this->tasks[spl_object_id($task)]);
        $task->isOver = true;
        $task->fiber = null;
    }

    /** In a child connections and tasks are the parent's. */
    private function enter(): void
    {
        if ($this->process === getmypid()) {
            return;
        }
        $this->process = getmypid();
        self::$inherited[] = [$this->multi, $this->tasks];
        foreach ($this->tasks as $task) {
            $task->isOver = true;
            $task->error = new LeafdException('unreachable', 'the process was forked meanwhile');
        }
        [$this->multi, $this->tasks, $this->results, $this->open] = [null, [], [], 0];
    }

    public function end(): void
    {
        $this->enter();
        foreach ($this->tasks as $task) {
            $task->wanted = false;
            $task->error = new LeafdException('closed', 'the client was closed');
            $this->abandon($task);
        }
        if ($this->open === 0) { // else a hook for events closed the client during a plain call
            $this->multi = null;
        }
    }

    public function pump(): void
    {
        if ($this->running?->fiber !== null) {
            return;
        }
        $this->enter();
        $this->perform();
        foreach ($this->tasks as $task) {
            if (!$task->isOver && $task !== $this->running) {
                $this->resume($task);
            }
        }
        ($this->afterwards)();
    }

    /** Until this time, or until something happened. */
    public function waitUntil(int $until): void
    {
        if ($this->running?->fiber !== null) {
            $this->running->wakeAt = $until;
            \Fiber::suspend();
            return;
        }
        $this->enter();
        foreach ($this->tasks as $task) {
            $until = min($until, $task->wakeAt ?? $until);
        }
        $leftUs = (int)min(1e6, ($until - hrtime(true)) / 1000);
        if ($leftUs > 0 && $this->open === 0) {
            usleep($leftUs);
        } elseif ($leftUs > 0 && curl_multi_select($this->multi, $leftUs / 1e6) < 1) {
            usleep(min($leftUs, 200)); // it may have nothing to wait for yet
        }
        $this->pump();
    }

    /** One request of this handle. Why it failed; null: there is an answer. $limits: milliseconds of a
     * connection, without TLS; of all. */
    public function exchange(\CurlHandle $handle, array $limits, Answer $answer): ?string
    {
        $this->enter();
        $multi = $this->multi ??= curl_multi_init();
        curl_multi_add_handle($multi, $handle);
        $this->open++;
        try {
            return $this->ended($handle, $limits, $answer);
        } finally {
            $this->enter();
            if ($this->multi === $multi) { // else the exchange is of a parent
                curl_multi_remove_handle($multi, $handle);
                unset($this->results[spl_object_id($handle)]);
                $this->open--;
            }
        }
    }

    private function resume(Task $task): void
    {
        $before = $this->running;
        $this->running = $task;
        try {
            $task->fiber->isStarted() ? $task->fiber->resume() : $task->fiber->start();
            if ($task->fiber->isTerminated()) {
                $task->value = $task->fiber->getReturn();
                $this->abandon($task);
            }
        } catch (LeafdException $error) {
            $task->error = $error;
            $this->abandon($task);
        } catch (\FiberError) {
            $this->withoutFiber($task);
        } finally {
            $this->running = $before;
        }
    }

    /** In a destructor PHP before 8.4 runs no fibers: one that waits is lost, a new one is a plain call. */
    private function withoutFiber(Task $task): void
    {
        if ($task->fiber->isStarted()) {
            $task->wanted = false;
            $task->error = new LeafdException('unreachable', 'a destructor cannot wait for it');
        } else {
            $task->fiber = null;
            try {
                $task->value = ($task->do)();
            } catch (LeafdException $error) {
                $task->error = $error;
            }
        }
        $this->abandon($task);
    }

    private function perform(): void
    {
        if ($this->open === 0) {
            return;
        }
        curl_multi_exec($this->multi, $running);
        while (($message = curl_multi_info_read($this->multi)) !== false) {
            $this->results[spl_object_id($message['handle'])] = $message['result'];
        }
    }

    private function ended(\CurlHandle $handle, array $limits, Answer $answer): ?string
    {
        [$connectMs, $withinMs] = $limits;
        $began = hrtime(true);
        $this->perform();
        for (;;) {
            $result = $this->results[spl_object_id($handle)] ?? null;
            if ($result !== null) {
                $answer->untrusted = $result === CURLE_SSL_PEER_CERTIFICATE;
                return $result === CURLE_OK ? null : (curl_error($handle) ?: curl_strerror($result));
            }
            $tookMs = (hrtime(true) - $began) / 1e6;
            if ($tookMs >= $withinMs) {
                return 'no answer within ' . (int)$withinMs . ' ms';
            }
            $connected = curl_getinfo($handle, CURLINFO_CONNECT_TIME_T) > 0 ||
                curl_getinfo($handle, CURLINFO_PRETRANSFER_TIME_T) > 0;
            if (!$connected && $tookMs >= $connectMs) {
                return 'no connection within ' . (int)$connectMs . ' ms';
            }
            $this->waitUntil($began + (int)(($connected ? $withinMs : min($connectMs, $withinMs)) * 1e6));
        }
    }
}

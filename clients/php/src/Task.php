<?php
declare(strict_types=1);

namespace Leafd;

/** A call that waits while the program does something else, and its state. Wire runs it. */
final class Task
{
    public ?\Fiber $fiber; // null: it is over, or a plain call
    public bool $isOver = false;
    public mixed $value = null; // that it brought
    public ?LeafdException $error = null; // that it ended with
    public bool $wanted = true; // false: another one brought what it is for
    public ?int $wakeAt = null; // by hrtime(), as the other times
    public ?int $askedAt = null; // when its present attempt began; null: there is none
    public ?int $callerUntil = null; // the end of what follows its first attempt; null: its deadline
    public readonly int $began;
    private readonly int $process;
    /** @var array<string, string> what each node last failed with, by URL */
    public array $failures = [];
    public ?LeafdException $quota = null; // the last answer was this: it is the client's own

    /** $url: of its node, null: where calls begin */
    public function __construct(public readonly \Closure $do, public readonly int $deadline,
        public ?string $url = null)
    {
        $this->fiber = new \Fiber($do);
        $this->began = hrtime(true);
        $this->process = getmypid();
    }

    /** The end of its present attempt: the first one has its time, as its answer is of use later, too. */
    public function until(): int
    {
        return $this->failures === [] ? $this->deadline : $this->callerUntil ?? $this->deadline;
    }

    /** It is a parent's, which continues it, and may hand out what it brings. */
    public function isLost(): bool
    {
        return $this->process !== getmypid();
    }
}

<?php
declare(strict_types=1);

namespace Leafd;

/** Strict ids: each call is a request, whose retries have its key. */
final class Strict
{
    private const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';

    private bool $stepped = false; // its ids do not follow each other
    private int $newest = 0; // generation that an answer had
    private int $highest = -1; // id of that generation
    private array $given = [];
    private bool $closed = false;

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        return $this->request(1, null, $deadlineMs)['first'];
    }

    /** Calls fail with "closed", until the client is asked for it anew. */
    public function close(): void
    {
        $this->closed = true;
    }

    /** @internal */
    public function isClosed(): bool
    {
        return $this->closed;
    }

    /** @return array{first: int, last: int, increment: int, replayed: bool} */
    public function request(int $count = 1, ?string $key = null, ?int $deadlineMs = null): array
    {
        $this->nodes->enter($this->closed);
        Settings::whole('count', $count, 1, Settings::COUNT_MAX);
        $isOwn = $key === null; // nobody else knows it
        $key = $isOwn ? self::newKey() : Settings::visible('key', $key, 128);
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count&format=range";
        $header = ["Idempotency-Key: $key"];
        $before = $this->newest;
        $above = $this->highest; // is an id, unless its key had got it before
        $judge = function (Answer $answer) use ($count, $key, $isOwn, $before, $above): ?string {
            $rises = ($isOwn || !$answer->replayed) && ($answer->generation ?? 0) === $before;
            $why = $this->refuses($answer, $count, $key, $rises ? $above : -1);
            $this->nodes->counters['burnt'] += $why === null ? 0 : $count;
            return $why;
        };
        try {
            $answer = $this->nodes->callTwice(fn () => $this->nodes->callForSteps(['GET', $target, $header, null],
                $deadline, $this->stepped, $judge), $deadline);
            [$first, $last, $increment] = $answer->range($count, $this->stepped);
        } catch (LeafdException $error) {
            $error->key = $key;
            throw $this->nodes->failed($error);
        }
        $this->nodes->counters['ids_strict'] += $count;
        return ['first' => $first, 'last' => $last, 'increment' => $increment, 'replayed' => $answer->replayed];
    }

    /** Why an answer is not taken: it is of an older generation than one before, or its ids are not new. */
    private function refuses(Answer $answer, int $count, string $key, int $above): ?string
    {
        $generation = $answer->generation ?? 0;
        if ($answer->generation !== null && $generation < $this->newest) {
            return "ids of generation $generation, older than $this->newest";
        }
        if ($generation > $this->newest) {
            [$this->newest, $this->highest] = [$generation, -1];
        }
        try {
            $range = $answer->range($count, $this->stepped);
        } catch (LeafdException) {
            return null; // whoever reads it says so
        }
        if ($range[0] <= $above) {
            return "its answer has id $range[0], and $above came before it was asked for";
        }
        $why = Given::again($this->given, $answer, [$range], $key);
        if ($why === null && $generation === $this->newest) {
            $this->highest = max($this->highest, $range[1]);
        }
        return $why;
    }

    /** @internal 130 random bits. */
    public static function newKey(): string
    {
        $key = '';
        foreach (unpack('C26', random_bytes(26)) as $byte) {
            $key .= self::LETTERS[$byte & 31];
        }
        return $key;
    }
}

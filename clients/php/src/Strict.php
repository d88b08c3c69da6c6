<?php
declare(strict_types=1);

namespace Leafd;

/** Strict ids: each call is a request, whose retries have its key. */
final class Strict
{
    private const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567';

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): int
    {
        return $this->request(1, null, $deadlineMs)['first'];
    }

    /** @return array{first: int, last: int, replayed: bool} */
    public function request(int $count = 1, ?string $key = null, ?int $deadlineMs = null): array
    {
        $this->nodes->enter();
        Settings::whole('count', $count, 1, Settings::COUNT_MAX);
        $key = $key === null ? self::newKey() : Settings::visible('key', $key, 128);
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count&format=range";
        try {
            $answer = $this->nodes->call(['GET', $target, ["Idempotency-Key: $key"], null], $deadline);
            [$first, $last] = $answer->range($count);
        } catch (LeafdException $error) {
            $error->key = $key;
            throw $this->nodes->failed($error);
        }
        $this->nodes->counters['ids_strict'] += $count;
        return ['first' => $first, 'last' => $last, 'replayed' => $answer->replayed];
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

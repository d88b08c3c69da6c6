<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids as the server writes them: each call is a request. A tag of mode trend takes no key: the first
 * call finds that out, and the source keeps it.
 */
final class Texts
{
    private bool $keyed = true;
    private int $newest = 0; // generation that an answer had
    private array $given = [];
    private bool $closed = false;

    /** @internal */
    public function __construct(private readonly Nodes $nodes, private readonly string $tag)
    {
    }

    public function next(?int $deadlineMs = null): string
    {
        return $this->request(1, null, $deadlineMs)['texts'][0];
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

    /** @return array{texts: list<string>, replayed: bool} */
    public function request(int $count = 1, ?string $key = null, ?int $deadlineMs = null): array
    {
        $this->nodes->enter($this->closed);
        Settings::whole('count', $count, 1, Settings::TEXTS_MAX);
        $given = $key === null ? null : Settings::visible('key', $key, 128);
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        try {
            $answer = $this->ask($count, $given, $deadline);
        } catch (LeafdException $error) {
            throw $this->nodes->failed($error);
        }
        $this->nodes->counters['ids_strict'] += $count;
        return $answer;
    }

    /** The number of a text of this tag, granted or not; from the admin_endpoints. */
    public function decode(string $text, ?int $deadlineMs = null): int
    {
        $this->nodes->enter($this->closed);
        $text = rawurlencode(Settings::visible('text', $text, 130));
        $deadline = $this->nodes->deadline($deadlineMs);
        $this->nodes->counters['waits']++;
        $target = '/api/segment/decode/' . rawurlencode($this->tag) . "?text=$text";
        try {
            return $this->nodes->call(['GET', $target, [], null], $deadline, [200], 'admin')->textId();
        } catch (LeafdException $error) {
            throw $this->nodes->failed($error);
        }
    }

    private function ask(int $count, ?string $given, int $deadline): array
    {
        if ($given !== null || $this->keyed) {
            try {
                return $this->askWith($count, $given ?? Strict::newKey(), $deadline);
            } catch (LeafdException $error) {
                if ($given !== null || $error->getCode() !== 'bad_key') {
                    throw $error;
                }
            }
            $this->keyed = false;
        }
        return $this->askWith($count, null, $deadline);
    }

    private function askWith(int $count, ?string $key, int $deadline): array
    {
        $target = '/api/segment/get/' . rawurlencode($this->tag) . "?count=$count";
        $request = ['GET', $target, $key === null ? [] : ["Idempotency-Key: $key"], null];
        $call = fn () => $this->nodes->call($request, $deadline,
            judge: fn (Answer $answer) => $this->refuses($answer, $count, $key));
        try {
            // Two answers without a key would be ids of two calls.
            $answer = $key === null ? $call() : $this->nodes->callTwice($call, $deadline);
            return ['texts' => $answer->texts($count), 'replayed' => $answer->replayed];
        } catch (LeafdException $error) {
            $error->key = $key;
            throw $error;
        }
    }

    /** Why an answer is not taken: it is of an older generation than one before, or, by its first text, it is one
     * that came before. */
    private function refuses(Answer $answer, int $count, ?string $key): ?string
    {
        if ($answer->generation !== null && $answer->generation < $this->newest) {
            return "texts of generation $answer->generation, older than $this->newest";
        }
        $this->newest = max($this->newest, $answer->generation ?? 0);
        try {
            $first = Given::TEXT . $answer->texts($count)[0];
        } catch (LeafdException) {
            return null; // whoever reads it says so
        }
        return Given::again($this->given, $answer, [[$first, $first]], $key);
    }
}

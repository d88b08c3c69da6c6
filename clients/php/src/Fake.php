<?php
declare(strict_types=1);

namespace Leafd;

/**
 * A cluster in memory, for a program's own tests: its clients are real ones, whose requests it answers.
 * Every tag is there, its ids begin at 1 and follow each other; worker ids are granted once each.
 *
 * The happy path: $fake = new Fake(), $client = $fake->client(), then setNext() and fail() as the test
 * likes.
 */
final class Fake
{
    private const WORKERS_MAX = 1024;

    /** @var array<string, int> by tag */
    private array $next = [];
    /** @var array<string, string> bodies by tag and key */
    private array $keys = [];
    /** @var list<\WeakReference<Client>> */
    private array $clients = [];
    private int $generation = 1;
    private int $workers = 0;
    private int $failing = 0; // requests that are still to fail, with this
    private int $status = 0;
    private string $code = '';

    /** A client of it; "endpoints" need not be given. */
    public function client(array $settings = [], ?callable $onEvent = null): Client
    {
        $client = new Client($settings + ['endpoints' => 'http://127.0.0.1'], $onEvent, $this->answer(...));
        $this->clients[] = \WeakReference::create($client);
        return $client;
    }

    /** This id of the tag comes next. What segment sources hold of it is dropped. */
    public function setNext(string $tag, int $id): void
    {
        $this->next[$tag] = $id;
        $this->generation++;
        foreach ($this->clients as $client) {
            $client->get()?->forget($tag);
        }
    }

    /** So many requests from now on are answered with this error, as (503, 'no_leader') or (404,
     * 'unknown_tag'); clients ask again after some. Status 0 breaks the connection. */
    public function fail(int $times, int $status, string $code): void
    {
        [$this->failing, $this->status, $this->code] = [$times, $status, $code];
    }

    private function answer(array $request): Answer
    {
        [$method, $target, $headers, $body] = $request;
        [$path, $query] = explode('?', $target, 2) + [1 => ''];
        parse_str($query, $options);
        $answer = new Answer();
        $answer->generation = $this->generation;
        if ($path === '/api/nodes') { // a client that looks for nodes has this one
            return self::refuse($answer, 404, 'not_found');
        }
        if ($this->failing > 0) {
            $this->failing--;
            $answer->broken = $this->status === 0 ? 'the connection broke' : null;
            return self::refuse($answer, $this->status, $this->code);
        }
        if (preg_match('~\A/api/segment/get/(.+)\z~', $path, $part)) {
            $key = preg_filter('/\AIdempotency-Key: /', '', $headers);
            return $this->ids($answer, rawurldecode($part[1]), $options, array_shift($key));
        }
        if (str_starts_with($path, '/api/segment/decode/')) {
            $text = $options['text'] ?? '';
            $answer->status = 200;
            $answer->body = json_encode(['id' => $text, 'granted' => true]);
            return preg_match('/\A\d{1,18}\z/', $text) ? $answer : self::refuse($answer, 400, 'bad_id');
        }
        return $this->worker($answer, $method, $path, (array)json_decode($body ?? '', true));
    }

    private function ids(Answer $answer, string $tag, array $options, ?string $key): Answer
    {
        $answer->status = 200;
        if ($key !== null && isset($this->keys["$tag $key"])) {
            $answer->replayed = true;
            $answer->body = $this->keys["$tag $key"];
            return $answer;
        }
        $first = $this->next[$tag] ?? 1;
        $last = $first + (int)$options['count'] - 1;
        $this->next[$tag] = $last + 1;
        $answer->body = isset($options['format']) ? "$first $last\n"
            : implode("\n", range($first, $last)) . "\n";
        if ($key !== null) {
            $this->keys["$tag $key"] = $answer->body;
        }
        return $answer;
    }

    private function worker(Answer $answer, string $method, string $path, array $asked): Answer
    {
        if ($method === 'DELETE') {
            $answer->status = 204;
            return $answer;
        }
        $acquires = $path === '/api/workers';
        if ($acquires && $this->workers === self::WORKERS_MAX) {
            return self::refuse($answer, 503, 'no_worker_id');
        }
        $answer->status = $acquires ? 201 : 200;
        $answer->body = json_encode([
            'worker_id' => $acquires ? $this->workers++ : (int)basename($path),
            'epoch' => $acquires ? $this->workers : $asked['epoch'],
            'from_ms' => 0,
            'until_ms' => (int)(microtime(true) * 1000) + $asked['window_ms'],
            'layout' => ['epoch_ms' => 1288834974657, 'time_bits' => 41, 'worker_bits' => 10,
                'sequence_bits' => 12],
        ]);
        return $answer;
    }

    private static function refuse(Answer $answer, int $status, string $code): Answer
    {
        $answer->status = $status;
        $answer->body = json_encode(['status' => $status, 'code' => $code, 'message' => 'as the test has it']);
        return $answer;
    }
}

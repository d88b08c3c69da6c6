<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Requests to the nodes, over libcurl: which is asked next, after which wait, by which deadline
 * (docs/clients.md, Nodes and retries).
 *
 * The happy path: call() asks the node that the client keeps to, and gives its answer. Failure modes:
 * a node that fails is left for the next one; after a round of failures it waits; past the deadline
 * "unreachable", or the error of the last 429 quota. A deadline is by hrtime(), in nanoseconds.
 */
final class Nodes
{
    private const VERSION = '0.2.0';
    private const BODY_MAX = 1 << 20;
    private const FIRST_WAIT_MS = 20;
    private const LONGEST_WAIT_MS = 1000;
    private const FIRST_PATIENCE_MS = 1000;
    private const SECOND_LEAST_NS = 20_000_000; // before a second request

    /** @var array<string, int> docs/clients.md, Counters */
    public array $counters = ['ids_segment' => 0, 'ids_strict' => 0, 'ids_snowflake' => 0,
        'requests' => 0, 'retries' => 0, 'failovers' => 0, 'errors' => 0, 'waits' => 0, 'burnt' => 0,
        'clock_waits' => 0, 'renewals' => 0, 'hedges' => 0];
    public bool $closed = false;
    /** @var array<string, ?string> the URL of the node that is kept to: of "ids" and of "admin" */
    private array $current = ['ids' => null, 'admin' => null];
    private readonly Discovery $discovery;
    public readonly Wire $wire;
    private int $process;
    private ?Task $proving = null; // that listed nodes are these

    private const TIER_PATIENCE = 1.5; // so many times as long as a node a whole tier may be silent

    private const EVENTS_MAX = 1000;
    /** @var list<array{string, array}> events that wait: for the end of a task, or of the hook itself */
    private array $events = [];
    public bool $quiet = false; // they wait for giveEvents()
    private bool $giving = false;
    private readonly ?\Closure $hook;

    public function __construct(public readonly Settings $settings, private readonly Shelf $shelf,
        ?callable $onEvent = null, private readonly ?\Closure $transport = null)
    {
        $this->wire = new Wire($this->giveEvents(...));
        $this->hook = $onEvent === null ? null : $onEvent(...);
        $this->discovery = new Discovery($settings, $shelf, $this->attempt(...), $this->tell(...));
        $this->process = getmypid();
    }

    /** Before each call: is the client open, and is this another process than the last time? */
    public function enter(bool $sourceClosed = false): void
    {
        if ($this->process !== getmypid()) {
            $this->process = getmypid();
            $this->counters = array_map(static fn () => 0, $this->counters);
        }
        if ($this->closed) {
            throw $this->failed(new LeafdException('closed', 'the client was closed'));
        }
        if ($sourceClosed) {
            throw $this->failed(new LeafdException('closed', 'the source was closed'));
        }
    }

    /** Gives the hook an event, once neither a task nor the hook runs. What it throws is logged, and harms
     * nothing. It may close the client, call it, and fork. */
    public function tell(string $kind, array $with): void
    {
        if ($this->hook !== null && count($this->events) < self::EVENTS_MAX) {
            $this->events[] = [$kind, $with];
            $this->giveEvents();
        }
    }

    public function giveEvents(): void
    {
        while (!$this->quiet && !$this->giving && $this->wire->running === null && $this->events !== []) {
            $process = getmypid();
            $this->giving = true;
            try {
                ($this->hook)(...array_shift($this->events));
            } catch (\Throwable $error) {
                error_log("leafd: the hook for events failed: {$error->getMessage()}");
            } finally {
                $this->giving = false;
            }
            if ($process !== getmypid()) { // else the child would have the ids of its parent's call
                throw new LeafdException('unreachable', 'the process was forked meanwhile');
            }
        }
    }

    public function failed(LeafdException $error): LeafdException
    {
        $this->counters['errors']++;
        return $error;
    }

    public function deadline(?int $ms): int
    {
        $ms = $ms === null ? $this->settings->numbers['deadline_ms']
            : Settings::whole('deadline_ms', $ms, 1, 600000);
        return hrtime(true) + $ms * 1_000_000;
    }

    /**
     * Ask nodes until one answers with one of the statuses of $success.
     * $request: [method, target, headers, body or null]. $tries: at most, 0: by the deadline alone.
     * $judge: why an answer is as if the node had failed; null: it is taken. $round: all have failed once.
     * In a task its deadline counts, and its node is asked first.
     */
    public function call(array $request, int $deadline, array $success = [200], string $which = 'ids',
        int $tries = 0, ?callable $judge = null, ?callable $round = null): Answer
    {
        $task = $this->wire->running ?? new Task(static fn () => null, $deadline);
        $urls = $this->route($which, false, $task->url);
        $at = 0;
        $sent = $failedNow = $untrusted = $rounds = 0;
        $roundMs = self::FIRST_WAIT_MS;
        $leastMs = 0;
        $task->quota = null;
        for (;;) {
            if ($this->closed) { // by a hook for events
                throw new LeafdException('closed', 'the client was closed');
            }
            $leftMs = ($task->until() - hrtime(true)) / 1e6;
            if ($leftMs <= 0 || ($tries > 0 && $sent >= $tries)) {
                throw $task->quota ?? self::unreachable($task);
            }
            $foreign = array_filter(array_map($this->discovery->foreign(...), $urls));
            if (count($foreign) === count($urls)) {
                throw new LeafdException('other_cluster', "the nodes are of $foreign[0]: ids of the two may be " .
                    'the same. If that is meant, make a new client (of a web server: empty APCu, as its ' .
                    'restart does); else correct endpoints');
            }
            [$task->url, $task->askedAt] = [$urls[$at], hrtime(true)];
            $answer = $this->ask($urls[$at], $request, $this->limits($leftMs, $rounds,
                count($urls) - $failedNow, $this->sharers($urls, $at, $which)), $sent);
            $error = $answer->broken === null ? $answer->error($success) : null;
            if ($answer->broken === null && $error === null && $judge !== null) {
                $answer->broken = $judge($answer);
            }
            if ($answer->broken === null && $error === null) {
                if (str_contains($request[1], 'format=range')) {
                    $took = hrtime(true) - $task->askedAt;
                    $usual = $this->shelf->get('usual') ?? $took;
                    $this->shelf->put('usual', $usual + intdiv($took - $usual, 8));
                }
                return $answer;
            }
            if ($error !== null && $error->status === 429 && $error->getCode() === 'quota') {
                $task->quota = $error;
                $task->askedAt = null;
                $this->pause(self::roundMs($roundMs, $answer->retryAfterMs()), $task->until());
                $roundMs = min($roundMs * 2, self::LONGEST_WAIT_MS);
                continue;
            }
            if ($error !== null && ($error->status < 502 || $error->status > 504)) {
                if ($error->status >= 300 && $error->getCode() === 'bad_answer') { // it is no leafd: the next call begins elsewhere
                    $this->leave($which, $urls[$at], $urls[($at + 1) % count($urls)]);
                }
                throw $error;
            }
            $isCut = hrtime(true) >= $task->until(); // short: what was before says more
            $task->quota = $isCut ? $task->quota : null;
            $why = $error === null ? $answer->broken
                : "{$error->getCode()} ({$error->status}): {$error->getMessage()}";
            $task->failures[$urls[$at]] = $isCut ? $task->failures[$urls[$at]] ?? $why : $why;
            $untrusted += $answer->untrusted ? 1 : 0;
            $leastMs = max($leastMs, $error === null ? 0 : $answer->retryAfterMs());
            $next = ($at + 1) % count($urls);
            $this->leave($which, $urls[$at], $urls[$next]);
            $at = $next;
            if (++$failedNow < count($urls)) {
                continue;
            }
            if ($untrusted === count($urls)) {
                throw new LeafdException('untrusted', 'no node has a certificate that is trusted here ' .
                    '(ca_file); ' . self::told($task->failures));
            }
            if ($round !== null) {
                $round();
            }
            $task->askedAt = null;
            if ($tries === 0) {
                $this->pause(self::roundMs($roundMs, $leastMs), $task->until());
            }
            $roundMs = min($roundMs * 2, self::LONGEST_WAIT_MS);
            $failedNow = $untrusted = $leastMs = $at = 0;
            $rounds++;
            $urls = $this->route($which, true);
        }
    }

    /** One request to one node, for which $sent counts; a listed node is proven first. */
    private function ask(string $url, array $request, array $limits, int &$sent): Answer
    {
        $foreign = $this->discovery->foreign($url);
        if ($foreign !== null || ($this->settings->discover && !$this->discovery->isProven($url) &&
            !$this->discovery->prove($url, 1))) {
            $answer = new Answer();
            $answer->broken = $foreign !== null ? "it is of $foreign"
                : 'it is not the node that was listed, or gives no answer';
            return $answer;
        }
        $this->counters['requests']++;
        $this->counters['retries'] += $sent++ > 0 ? 1 : 0;
        return $this->attempt($url, $request, $limits);
    }

    /**
     * As call(), for what may be asked twice: a second request goes beside one that takes long. $call is
     * run as a task, perhaps twice at the same time.
     */
    public function callTwice(\Closure $call, int $deadline): Answer
    {
        $tasks = [$this->wire->begin($call, $deadline)];
        try {
            for (;;) {
                $over = array_filter($tasks, static fn (Task $task) => $task->isOver);
                $tasks = array_diff_key($tasks, $over);
                foreach ($over as $task) {
                    if ($task->error === null) {
                        $this->prefer($task, reset($tasks) ?: null);
                        return $task->value;
                    }
                    if ($tasks === [] || $task->error->isFinal()) {
                        throw $task->error;
                    }
                }
                $until = $this->second($tasks, $call, $deadline, $deadline);
                $this->wire->waitUntil($until);
            }
        } finally {
            array_map($this->wire->abandon(...), $tasks);
        }
    }

    /** Begins a second task beside the only one, which ends by $ends, where that is due. When to look again,
     * $deadline at most. */
    public function second(array &$tasks, \Closure $call, int $deadline, int $ends): int
    {
        $first = reset($tasks);
        $beside = count($tasks) === 1 && $first->wanted && $first->askedAt !== null
            ? $this->discovery->beside('ids', $first->url) : null;
        if ($beside === null) {
            return $deadline;
        }
        $due = $first->askedAt + $this->patience();
        if (hrtime(true) < $due) {
            return min($due, $deadline);
        }
        $this->counters['hedges']++;
        $tasks[] = $this->wire->begin($call, $ends, $beside);
        return hrtime(true);
    }

    /** Twice the usual time of an answer: after that another request goes beside the first. */
    public function patience(): int
    {
        $usual = $this->shelf->get('usual') ?? $this->settings->numbers['connect_ms'] * 1_000_000;
        return max(2 * $usual, self::SECOND_LEAST_NS);
    }

    /** Calls begin at the node of this task, which answered before the other one's. */
    public function prefer(Task $task, ?Task $other): void
    {
        if ($other !== null) {
            $this->leave('ids', $other->url, $task->url);
        }
    }

    public static function unreachable(?Task $task): LeafdException
    {
        return new LeafdException('unreachable', 'no node answered by the deadline; ' .
            (self::told($task->failures ?? []) ?: 'none was asked in time'));
    }

    /** @return list<string> URLs in the order in which a round asks them, of what is known by now; $first: begins */
    private function route(string $which, bool $failed, ?string $first = null): array
    {
        $this->discovery->resolve($failed);
        if ($this->settings->discover && $this->discovery->look($this->current['ids'], $failed)) {
            foreach ($this->current as $kind => $current) {
                $better = $current === null ? [] : $this->discovery->better($kind, $current);
                foreach ($better as $url) {
                    if ($this->discovery->prove($url, count($better))) {
                        $this->leave($kind, $current, $url);
                        break;
                    }
                }
            }
            if ($this->proving?->isOver !== false) {
                $this->proving = $this->wire->begin($this->discovery->proveOthers(...), $this->deadline(null));
            }
        }
        $route = $this->discovery->order($which, $this->current[$which]);
        if ($this->current[$which] === null || !in_array($this->current[$which], $route, true)) {
            $this->current[$which] = $route[0];
        }
        return $first === null ? $route : $this->discovery->order($which, $first);
    }

    /** How many nodes share the time that the tier of $urls[$at] has; 1: there is no other tier. */
    private function sharers(array $urls, int $at, string $which): int
    {
        $tier = $this->discovery->tier($urls[$at], $which);
        $count = count(array_filter($urls, fn ($url) => $this->discovery->tier($url, $which) === $tier));
        return $count === count($urls) ? 1 : $count;
    }

    /** How many nodes there are for worker ids, or for ids. */
    public function count(string $which): int
    {
        return count($this->discovery->order($which, null));
    }

    /** As call(), for ranges: a tag whose ids do not follow each other has to be asked for steps. */
    public function callForSteps(array $request, int $deadline, bool &$stepped, ?callable $judge = null,
        ?callable $round = null): Answer
    {
        if (!$stepped) {
            try {
                return $this->call($request, $deadline, judge: $judge, round: $round);
            } catch (LeafdException $error) {
                if ($error->status !== 400 || $error->getCode() !== 'stepped') {
                    throw $error;
                }
            }
            $stepped = true;
        }
        $request[1] .= '&stepped=1';
        return $this->call($request, $deadline, judge: $judge, round: $round);
    }

    /** After a round, or a quota: a random half to all of its time, and what Retry-After says. */
    private static function roundMs(int $roundMs, int $leastMs): int
    {
        return (int)max($roundMs * random_int(500, 1000) / 1000, $leastMs);
    }

    public function pause(int|float $ms, int $deadline): void
    {
        $until = min(hrtime(true) + (int)($ms * 1e6), $deadline);
        while (!$this->closed && hrtime(true) < $until) {
            $this->wire->waitUntil($until);
        }
    }

    /** From now on the next node is kept to. */
    public function goOn(string $which): void
    {
        $route = $this->route($which, false);
        $this->current[$which] = $route[1 % count($route)];
    }

    public function end(): void
    {
        $this->closed = true;
        $this->wire->end();
    }

    private function leave(string $which, string $url, string $next): void
    {
        if ($this->current[$which] === $url && $next !== $url) {
            $this->current[$which] = $next;
            $this->counters['failovers']++;
            $this->tell('failover', ['from' => $url, 'to' => $next]);
        }
    }

    private static function told(array $failures): string
    {
        return implode('; ', array_map(static fn ($url) => "$url: {$failures[$url]}",
            array_keys($failures)));
    }

    /** [milliseconds of a connection, without TLS; of all of the attempt] */
    private function limits(float $leftMs, int $rounds, int $others, int $sharers): array
    {
        $attemptMs = $this->settings->numbers['attempt_ms'];
        $doubled = static fn (float $first) => min($first * 2 ** min($rounds, 20), $attemptMs);
        $patience = $doubled(max(self::FIRST_PATIENCE_MS, $attemptMs / 4));
        return [$doubled($this->settings->numbers['connect_ms']),
            min($patience, $patience * self::TIER_PATIENCE / $sharers, $leftMs / $others)];
    }

    /** One request to one node. */
    private function attempt(string $url, array $request, array $limits): Answer
    {
        if ($this->transport !== null) {
            return ($this->transport)($request);
        }
        $answer = new Answer();
        if (str_contains($url, '+srv://')) {
            $answer->broken = 'there is no SRV record of ' . explode('://', $url)[1];
            return $answer;
        }
        $handle = $this->handle($url, $request, $answer);
        $answer->broken = $this->wire->exchange($handle, $limits, $answer);
        $answer->status = curl_getinfo($handle, CURLINFO_RESPONSE_CODE);
        $answer->broken ??= $answer->cut();
        if (curl_getinfo($handle, CURLINFO_NAMELOOKUP_TIME_T) > 0) {
            $this->discovery->hasAddress($url);
        }
        if (strlen($answer->body) > self::BODY_MAX) {
            throw new LeafdException('bad_answer', "$url: a body of more than " . self::BODY_MAX .
                ' bytes', $answer->status);
        }
        return $answer;
    }

    private function handle(string $url, array $request, Answer $answer): \CurlHandle
    {
        [$method, $target, $headers, $body] = $request;
        [$url, $address] = explode('#', $url) + [1 => null];
        $headers[] = 'Expect:';
        if (($token = $this->settings->token()) !== null) {
            $headers[] = "Authorization: Bearer $token";
        }
        $handle = curl_init();
        $options = [
            CURLOPT_URL => $url . $target,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_PATH_AS_IS => true,
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_PROXY => '',
            CURLOPT_NOPROXY => '*',
            CURLOPT_NOSIGNAL => true,
            // libcurl before 8.1 takes what came on an idle connection, as a proxy's 408, for an answer.
            CURLOPT_MAXAGE_CONN => 1,
            CURLOPT_SSL_VERIFYPEER => true,
            CURLOPT_SSL_VERIFYHOST => 2,
            CURLOPT_SSLVERSION => CURL_SSLVERSION_TLSv1_2,
            CURLOPT_USERAGENT => 'leafd-php/' . self::VERSION,
            CURLOPT_WRITEFUNCTION => static function ($_, string $data) use ($answer): int {
                $answer->body .= $data;
                return strlen($answer->body) > self::BODY_MAX ? 0 : strlen($data);
            },
            CURLOPT_HEADERFUNCTION => static function ($_, string $line) use ($answer): int {
                $answer->header($line);
                return strlen($line);
            },
        ];
        if ($address !== null) {
            $options[CURLOPT_CONNECT_TO] = ["::$address:"];
        }
        if ($body !== null) {
            $options[CURLOPT_POSTFIELDS] = $body;
            $headers[] = 'Content-Type: application/json';
        }
        if ($this->settings->caFile !== null) {
            $options[CURLOPT_CAPATH] = '/dev/null'; // not those of the system, too
        }
        $files = [CURLOPT_CAINFO => $this->settings->caFile, CURLOPT_SSLCERT => $this->settings->certFile,
            CURLOPT_SSLKEY => $this->settings->keyFile];
        curl_setopt_array($handle, $options + array_filter($files) + [CURLOPT_HTTPHEADER => $headers]);
        return $handle;
    }
}

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

    /** @var array<string, int> docs/clients.md, Counters */
    public array $counters = ['ids_segment' => 0, 'ids_strict' => 0, 'ids_snowflake' => 0,
        'requests' => 0, 'retries' => 0, 'failovers' => 0, 'errors' => 0, 'waits' => 0, 'burnt' => 0,
        'clock_waits' => 0, 'renewals' => 0];
    public bool $closed = false;
    /** @var array<string, int> which node is kept to: of "ids" and of "admin" */
    private array $current;
    private ?\CurlMultiHandle $multi = null;
    private int $process;
    /** @var list<\CurlMultiHandle> of a parent: ending them would end its TLS connections */
    private static array $inherited = [];

    public function __construct(public readonly Settings $settings)
    {
        $this->current = ['ids' => random_int(0, count($settings->endpoints) - 1),
            'admin' => random_int(0, count($settings->adminEndpoints) - 1)];
        $this->process = getmypid();
    }

    /** Before each call: is the client open, and is this another process than the last time? */
    public function enter(): void
    {
        if ($this->process !== getmypid()) {
            $this->process = getmypid();
            $this->counters = array_map(static fn () => 0, $this->counters);
            if ($this->multi !== null) {
                self::$inherited[] = $this->multi;
                $this->multi = null;
            }
        }
        if ($this->closed) {
            throw $this->failed(new LeafdException('closed', 'the client was closed'));
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
     */
    public function call(array $request, int $deadline, array $success = [200], string $which = 'ids',
        int $tries = 0): Answer
    {
        $urls = $which === 'ids' ? $this->settings->endpoints : $this->settings->adminEndpoints;
        $at = $this->current[$which];
        $sent = $failedNow = $untrusted = $rounds = 0;
        $roundMs = self::FIRST_WAIT_MS;
        $leastMs = 0;
        $failures = [];
        $quota = null;
        for (;;) {
            $leftMs = ($deadline - hrtime(true)) / 1e6;
            if ($leftMs <= 0 || ($tries > 0 && $sent >= $tries)) {
                throw $quota ?? new LeafdException('unreachable', 'no node answered by the deadline; ' .
                    (self::told($urls, $failures) ?: 'none was asked in time'));
            }
            $this->counters['requests']++;
            $this->counters['retries'] += $sent++ > 0 ? 1 : 0;
            $answer = $this->attempt($urls[$at], $request, $this->limits($leftMs, $rounds,
                count($urls) - $failedNow));
            $error = $answer->broken === null ? $answer->error($success) : null;
            if ($answer->broken === null && $error === null) {
                return $answer;
            }
            if ($error !== null && $error->status === 429 && $error->getCode() === 'quota') {
                $quota = $error;
                $this->pause(max($answer->retryAfterMs(1000), self::FIRST_WAIT_MS), $deadline);
                continue;
            }
            if ($error !== null && $error->status !== 503) {
                throw $error;
            }
            $quota = null;
            $failures[$at] = $error === null ? $answer->broken
                : "{$error->getCode()} (503): {$error->getMessage()}";
            $untrusted += $answer->untrusted ? 1 : 0;
            $leastMs = max($leastMs, $error === null ? 0 : $answer->retryAfterMs(0));
            $at = $this->leave($which, $at, count($urls));
            if (++$failedNow < count($urls)) {
                continue;
            }
            if ($untrusted === count($urls)) {
                throw new LeafdException('untrusted', 'no node has a certificate that is trusted here ' .
                    '(ca_file); ' . self::told($urls, $failures));
            }
            if ($tries === 0) {
                $this->pause((int)max($roundMs * random_int(500, 1000) / 1000, $leastMs), $deadline);
            }
            $roundMs = min($roundMs * 2, self::LONGEST_WAIT_MS);
            $failedNow = $untrusted = $leastMs = 0;
            $rounds++;
        }
    }

    public function pause(int|float $ms, int $deadline): void
    {
        $us = (int)min($ms * 1000, ($deadline - hrtime(true)) / 1000);
        if ($us > 0) {
            usleep($us);
        }
    }

    /** From now on the next node is kept to. */
    public function goOn(string $which): void
    {
        $urls = $which === 'ids' ? $this->settings->endpoints : $this->settings->adminEndpoints;
        $this->current[$which] = ($this->current[$which] + 1) % count($urls);
    }

    public function end(): void
    {
        $this->closed = true;
        if ($this->process === getmypid()) {
            $this->multi = null;
        }
    }

    private function leave(string $which, int $at, int $count): int
    {
        if ($this->current[$which] === $at && $count > 1) {
            $this->current[$which] = ($at + 1) % $count;
            $this->counters['failovers']++;
        }
        return ($at + 1) % $count;
    }

    private static function told(array $urls, array $failures): string
    {
        ksort($failures);
        return implode('; ', array_map(static fn ($at) => "{$urls[$at]}: {$failures[$at]}",
            array_keys($failures)));
    }

    /** [milliseconds of a connection, without TLS; of all of the attempt] */
    private function limits(float $leftMs, int $rounds, int $others): array
    {
        $attemptMs = $this->settings->numbers['attempt_ms'];
        $doubled = static fn (float $first) => min($first * 2 ** min($rounds, 20), $attemptMs);
        return [$doubled($this->settings->numbers['connect_ms']),
            min($doubled(max(self::FIRST_PATIENCE_MS, $attemptMs / 4)), $leftMs / $others)];
    }

    /** One request to one node. */
    private function attempt(string $url, array $request, array $limits): Answer
    {
        $answer = new Answer();
        $handle = $this->handle($url, $request, $answer);
        $this->multi ??= curl_multi_init();
        curl_multi_add_handle($this->multi, $handle);
        $answer->broken = $this->run($handle, $limits, $answer);
        curl_multi_remove_handle($this->multi, $handle);
        $answer->status = curl_getinfo($handle, CURLINFO_RESPONSE_CODE);
        if (strlen($answer->body) > self::BODY_MAX) {
            throw new LeafdException('bad_answer', "$url: a body of more than " . self::BODY_MAX .
                ' bytes', $answer->status);
        }
        return $answer;
    }

    private function handle(string $url, array $request, Answer $answer): \CurlHandle
    {
        [$method, $target, $headers, $body] = $request;
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

    /** Why it failed; null: there is an answer. */
    private function run(\CurlHandle $handle, array $limits, Answer $answer): ?string
    {
        [$connectMs, $withinMs] = $limits;
        $began = hrtime(true);
        for (;;) {
            curl_multi_exec($this->multi, $running);
            $message = curl_multi_info_read($this->multi);
            if ($message !== false) {
                $answer->untrusted = $message['result'] === CURLE_SSL_PEER_CERTIFICATE;
                return $message['result'] === CURLE_OK ? null
                    : (curl_error($handle) ?: curl_strerror($message['result']));
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
            $leftMs = ($connected ? $withinMs : min($connectMs, $withinMs)) - $tookMs;
            if (curl_multi_select($this->multi, min($leftMs, 1000) / 1000) < 1) {
                usleep(200); // it may have nothing to wait for yet
            }
        }
    }
}

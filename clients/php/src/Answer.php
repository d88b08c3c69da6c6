<?php
declare(strict_types=1);

namespace Leafd;

/** What a node answered, and what it means (docs/http-api.md). What is none of leafd's: bad_answer. */
final class Answer
{
    private const RANGES_MAX = 64;
    private const TEXT_MAX = 130;
    private const WORKER_MAX = 1023;
    private const WEIGHT_MAX = 1000;
    private const ID_MAX = '9223372036854775807';

    public int $status = 0;
    public string $body = '';
    /** Why there is no whole answer; null: there is one. */
    public ?string $broken = null;
    public bool $untrusted = false;
    public bool $replayed = false;
    public ?int $generation = null;
    private bool $isStrange = false; // its generation is no number
    private int $retryAfterS = 0;
    private bool $headOver = false; // what comes in the form of headers then is a trailer
    private bool $saysLength = false;

    /** A line of the head. */
    public function header(string $line): void
    {
        if (str_starts_with($line, 'HTTP/')) { // what an interim answer said is not of this one
            $this->replayed = $this->isStrange = $this->headOver = $this->saysLength = false;
            $this->generation = null;
            $this->retryAfterS = 0;
        } elseif (trim($line) === '') {
            $this->headOver = true;
        } elseif ($this->headOver) {
            return;
        } elseif (preg_match('/\AIdempotency-Replayed:\s*(?-i:true)\s*\z/i', $line)) {
            $this->replayed = true;
        } elseif (preg_match('/\ALeafd-Generation:\s*(.*?)\s*\z/i', $line, $part)) {
            $this->generation = self::id($part[1]);
            $this->isStrange = $this->generation === null;
        } elseif (preg_match('/\ARetry-After:\s*(\d+)\s*\z/i', $line, $part)) {
            $this->retryAfterS = (int)min($part[1], 86400);
        } elseif (preg_match('/\A(?:Content-Length|Transfer-Encoding):/i', $line)) {
            $this->saysLength = true;
        }
    }

    /** libcurl takes the end of a connection for the end of such an answer. Null: it is whole. */
    public function cut(): ?string
    {
        if ($this->headOver && ($this->saysLength || in_array($this->status, [204, 304], true))) {
            return null;
        }
        return $this->headOver ? 'an answer that does not say its length'
            : 'the connection ended in the head of an answer';
    }

    public function retryAfterMs(): int
    {
        return $this->retryAfterS * 1000;
    }

    /** Null for what succeeded. */
    public function error(array $success): ?LeafdException
    {
        if (in_array($this->status, $success, true)) {
            return $this->isStrange ? $this->bad('and a Leafd-Generation that is no number') : null;
        }
        $row = json_decode($this->body, true);
        $code = is_array($row) ? $row['code'] ?? null : null;
        $message = is_array($row) ? $row['message'] ?? null : null;
        if ($this->status < 400 || !is_string($code) || !preg_match('/\A[a-z0-9_]{1,64}\z/', $code) ||
            !is_string($message)) {
            return $this->bad('and no error of leafd');
        }
        $hint = $this->status === 400 && $code === 'bad_request' && str_contains($message, ' has a shape, ')
            ? '; use texts() of the client' : '';
        return new LeafdException($code, substr($message, 0, 1000) . $hint, $this->status);
    }

    /**
     * @return list<array{int, int, int}> first, last and increment; exactly the ids asked for, rising
     * $stepped: each line has an increment.
     */
    public function ranges(int $count, bool $stepped = false): array
    {
        $lines = explode("\n", $this->body);
        if (array_pop($lines) !== '') {
            throw $this->bad('and a line without an end');
        }
        $number = '(0|[1-9]\d{0,18})';
        $pattern = $stepped ? "/\\A$number $number $number\\z/" : "/\\A$number $number\\z/";
        $ranges = [];
        $before = -1;
        $left = $count;
        foreach ($lines as $line) {
            if (count($ranges) === self::RANGES_MAX || !preg_match($pattern, $line, $part)) {
                throw $this->bad('and no ranges');
            }
            $first = self::id($part[1]);
            $last = self::id($part[2]);
            $step = $stepped ? self::id($part[3]) : 1;
            if ($first === null || $last === null || $step === null || $step < 1 || $first <= $before ||
                $last < $first || ($last - $first) % $step !== 0) {
                throw $this->bad('and ranges that do not rise');
            }
            $more = intdiv($last - $first, $step); // than one, without a sum that could overflow
            if ($more >= $left) {
                throw $this->bad("and not the $count ids asked for");
            }
            $left -= $more + 1;
            $before = $last;
            $ranges[] = [$first, $last, $step];
        }
        if ($left !== 0) {
            throw $this->bad("and not the $count ids asked for");
        }
        return $ranges;
    }

    /** @return array{int, int, int} */
    public function range(int $count, bool $stepped = false): array
    {
        $ranges = $this->ranges($count, $stepped);
        if (count($ranges) !== 1) {
            throw $this->bad('and not one range');
        }
        return $ranges[0];
    }

    /** @return list<string> */
    public function texts(int $count): array
    {
        $lines = explode("\n", $this->body);
        $pattern = '/\A[\x21-\x7e]{1,' . self::TEXT_MAX . '}\z/';
        if (array_pop($lines) !== '' || preg_grep($pattern, $lines, PREG_GREP_INVERT) !== []) {
            throw $this->bad('and no ids');
        }
        if (count($lines) !== $count) {
            throw $this->bad("and not the $count ids asked for");
        }
        return $lines;
    }

    /**
     * @return ?array{self: int, uid: ?string, rows: array<int, array>} of GET /api/nodes; null: it is no listing. Rows
     * that cannot be asked are left out. $scheme: of the node that was asked
     */
    public function listing(string $scheme, int $most): ?array
    {
        $all = $this->status === 200 ? json_decode($this->body, true, 16) : null;
        if (!is_array($all) || !is_int($all['self'] ?? null) || !is_array($all['nodes'] ?? null)) {
            return null;
        }
        $rows = [];
        foreach ($all['nodes'] as $row) {
            $at = is_array($row) ? $row['http_address'] ?? null : null;
            $id = $row['id'] ?? null;
            $weight = $row['weight'] ?? null;
            $good = is_string($at) && preg_match('/\A' . Settings::HOST . ':(\d{1,5})\z/', $at, $part) &&
                (int)end($part) >= 1 && (int)end($part) <= 65535 && is_int($id) && $id >= 1 &&
                is_int($weight) && $weight >= 0 && $weight <= self::WEIGHT_MAX;
            if ($good && count($rows) < $most) {
                $rows[$id] = ['id' => $id, 'url' => "$scheme//$at", 'zone' => $row['zone'] ?? null,
                    'weight' => $weight, 'ready' => ($row['state'] ?? null) === 'ready',
                    'snowflake' => ($row['snowflake'] ?? null) === true];
            }
        }
        $uid = $all['uid'] ?? null;
        return ['self' => $all['self'], 'uid' => is_string($uid) ? $uid : null, 'rows' => $rows];
    }

    /** The number that a text was found to have. */
    public function textId(): int
    {
        $row = json_decode($this->body, true);
        $id = is_array($row) && is_bool($row['granted'] ?? null) && is_string($row['id'] ?? null)
            ? self::id($row['id']) : null;
        return $id ?? throw $this->bad('and no id');
    }

    /** @return array{worker: int, epoch: int, from: int, until: int, layout: ?array} */
    public function grant(): array
    {
        $row = json_decode($this->body, true);
        $row = is_array($row) ? $row : [];
        $layout = null;
        if (!array_key_exists('layout', $row) || is_array($row['layout'])) {
            $given = $row['layout'] ?? [];
            $layout = ['epoch' => $this->number($given, 'epoch_ms', 0),
                'time' => $this->number($given, 'time_bits', 1, 62),
                'worker' => $this->number($given, 'worker_bits', 1, 10),
                'sequence' => $this->number($given, 'sequence_bits', 1, 20)];
            if ($layout['time'] + $layout['worker'] + $layout['sequence'] > 63) {
                throw $this->bad('and no layout');
            }
        } elseif ($row['layout'] !== null) {
            throw $this->bad('and no layout');
        }
        $from = $this->number($row, 'from_ms', 0, PHP_INT_MAX - 1);
        return ['worker' => $this->number($row, 'worker_id', 0,
            $layout === null ? self::WORKER_MAX : (1 << $layout['worker']) - 1),
            'epoch' => $this->number($row, 'epoch', 1), 'from' => $from,
            'until' => $this->number($row, 'until_ms', max($from, $layout === null ? 0 : $layout['epoch'] + 1)),
            'layout' => $layout];
    }

    private function number(array $row, string $name, int $low, int $high = PHP_INT_MAX): int
    {
        $value = $row[$name] ?? null;
        if (!is_int($value) || $value < $low || $value > $high) {
            throw $this->bad("and no $name of a worker id");
        }
        return $value;
    }

    /** Null beyond 63 bits, which (int) would make the largest id of. */
    private static function id(string $digits): ?int
    {
        $good = preg_match('/\A\d{1,19}\z/', $digits) &&
            (strlen($digits) < 19 || strcmp($digits, self::ID_MAX) <= 0);
        return $good ? (int)$digits : null;
    }

    private function bad(string $what): LeafdException
    {
        $shown = json_encode(substr($this->body, 0, 100), JSON_INVALID_UTF8_SUBSTITUTE);
        return new LeafdException('bad_answer', "status $this->status, $what: $shown", $this->status);
    }
}

<?php
declare(strict_types=1);

namespace Leafd;

/** What a node answered, and what it means (docs/http-api.md). What is none of leafd's: bad_answer. */
final class Answer
{
    private const RANGES_MAX = 64;
    private const TEXT_MAX = 130;
    private const WORKER_MAX = 1023;
    private const ID_MAX = '9223372036854775807';

    public int $status = 0;
    public string $body = '';
    /** Why there is no whole answer; null: there is one. */
    public ?string $broken = null;
    public bool $untrusted = false;
    public bool $replayed = false;
    private ?int $retryAfterS = null;

    /** A line of the head. */
    public function header(string $line): void
    {
        if (preg_match('/\AIdempotency-Replayed:\s*true\s*\z/i', $line)) {
            $this->replayed = true;
        } elseif (preg_match('/\ARetry-After:\s*(\d{1,9})\s*\z/i', $line, $part)) {
            $this->retryAfterS = min((int)$part[1], 86400);
        }
    }

    public function retryAfterMs(int $default): int
    {
        return $this->retryAfterS === null ? $default : $this->retryAfterS * 1000;
    }

    /** Null for what succeeded. */
    public function error(array $success): ?LeafdException
    {
        if (in_array($this->status, $success, true)) {
            return null;
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

    /** @return list<array{int, int}> first and last; exactly the ids asked for, rising */
    public function ranges(int $count): array
    {
        $lines = explode("\n", $this->body);
        if (end($lines) === '') {
            array_pop($lines);
        }
        $ranges = [];
        $before = -1;
        $left = $count;
        foreach ($lines as $line) {
            if (count($ranges) === self::RANGES_MAX ||
                !preg_match('/\A(\d{1,19}) (\d{1,19})\z/', $line, $part)) {
                throw $this->bad('and no ranges');
            }
            $first = self::id($part[1]);
            $last = self::id($part[2]);
            if ($first === null || $last === null || $first <= $before || $last < $first) {
                throw $this->bad('and ranges that do not rise');
            }
            if ($last - $first >= $left) { // without a sum that could overflow
                throw $this->bad("and not the $count ids asked for");
            }
            $left -= $last - $first + 1;
            $before = $last;
            $ranges[] = [$first, $last];
        }
        if ($left !== 0) {
            throw $this->bad("and not the $count ids asked for");
        }
        return $ranges;
    }

    /** @return array{int, int} */
    public function range(int $count): array
    {
        $ranges = $this->ranges($count);
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

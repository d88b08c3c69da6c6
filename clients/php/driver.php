<?php
// The driver of this library for clients/conformance: a line for a line (docs/clients.md,
// Conformance). The happy path: read a command, do it by the library, answer. What the library
// refuses is answered with "error"; a command that is none ends the driver with 2.
declare(strict_types=1);

use Leafd\Client;
use Leafd\LeafdException;

require __DIR__ . '/autoload.php';

/** Ids as ranges, joined where they follow each other. */
final class Ids
{
    private array $ranges = [];

    public function add(int $first, int $last): void
    {
        $end = count($this->ranges) - 1;
        if ($end >= 0 && $this->ranges[$end][1] + 1 === $first) {
            $this->ranges[$end][1] = $last;
        } else {
            $this->ranges[] = [$first, $last];
        }
    }

    public function text(): string
    {
        return implode('', array_map(static fn ($range) => " $range[0]-$range[1]", $this->ranges));
    }
}

/** What the hook was given, by kinds. */
final class Events
{
    public static array $counts = [];
}

function taken(callable $next, int $count): Ids
{
    $ids = new Ids();
    for ($i = 0; $i < $count; $i++) {
        $id = $next();
        $ids->add($id, $id);
    }
    return $ids;
}

/** A child's ids by a file, then the parent's. */
function forked(Client $client, callable $take): string
{
    $file = tmpfile();
    $child = pcntl_fork();
    if ($child === 0) {
        fwrite($file, $take()->text());
        fflush($file);
        $client->close();
        exit(0);
    }
    pcntl_waitpid($child, $status);
    if ($status !== 0) {
        return "fault the child ended with $status";
    }
    rewind($file);
    $ids = new Ids(); // joined: with APCu both take from one range
    $both = stream_get_contents($file) . $take()->text();
    foreach (array_filter(explode(' ', $both)) as $range) {
        $ids->add(...array_map('intval', explode('-', $range)));
    }
    return 'ids' . $ids->text();
}

function repeated(callable $next, int $seconds): string
{
    $ids = new Ids();
    $longest = $count = 0;
    $buckets = []; // of 100 ns
    $now = hrtime(true);
    $until = $now + $seconds * 1_000_000_000;
    while ($now < $until) {
        $id = $next();
        $took = hrtime(true) - $now;
        $longest = max($longest, $took);
        $bucket = intdiv($took, 100);
        $buckets[$bucket] = ($buckets[$bucket] ?? 0) + 1;
        $count++;
        $ids->add($id, $id);
        $now = hrtime(true);
    }
    krsort($buckets);
    $above = 0;
    foreach ($buckets as $bucket => $times) {
        $above += $times;
        if ($above > $count / 10000) {
            break;
        }
    }
    return sprintf('loop %d %d %d ids%s', $count, $longest, min($longest, $bucket * 100 + 99), $ids->text());
}

function open(array $words): Client
{
    $settings = [];
    foreach ($words as $word) {
        [$name, $value] = explode('=', $word, 2) + [1 => ''];
        $number = preg_match('/(_ms|_count)\z/', $name) && preg_match('/\A\d{1,18}\z/', $value);
        $switch = $name === 'discover' ? ['true' => true, 'false' => false][$value] ?? $value : $value;
        $settings[$name] = $number ? (int)$value : $switch;
    }
    Events::$counts = [];
    return new Client($settings, static function (string $kind): void {
        Events::$counts[$kind] = (Events::$counts[$kind] ?? 0) + 1;
    });
}

/** One that was closed is kept, since asking for it anew would open it again. */
function source(?Client $client, string $kind, string $name): object
{
    static $kept = [];
    static $whose = null;
    if ($whose !== $client) {
        [$kept, $whose] = [[], $client];
    }
    return $kept["$kind $name"] ??= $kind === 'snowflake' ? $client->snowflake() : $client->$kind($name);
}

function answer(?Client $client, array $words, ?int $deadline): string
{
    $word = static fn (int $at) => $words[$at] ?? throw new UnexpectedValueException('a word is missing');
    $number = static fn (int $at) => (int)$word($at);
    $key = $words[3] ?? null;
    $segment = static fn (int $count) => taken(static fn () => source($client, 'segment', $word(1))->next($deadline), $count);
    $snowflake = static fn (int $count) => taken(static fn () => source($client, 'snowflake', '-')->next($deadline), $count);
    $strict = static fn (int $at, int $count) =>
        taken(static fn () => source($client, 'strict', $word($at))->next($deadline), $count);
    switch ($words[0]) {
        case 'segment':
            return 'ids' . $segment($number(2))->text();
        case 'range':
            [$first, $last, $step] = source($client, 'segment', $word(1))->nextRange($number(2), $deadline);
            return "ids $first-$last" . ($step === 1 ? '' : " step $step");
        case 'strict':
            $got = source($client, 'strict', $word(1))->request($number(2), $key, $deadline);
            $ids = new Ids();
            if ($got['increment'] === 1) {
                $ids->add($got['first'], $got['last']);
            } else {
                array_map(static fn ($id) => $ids->add($id, $id),
                    range($got['first'], $got['last'], $got['increment']));
            }
            return 'ids' . $ids->text() . ($got['replayed'] ? ' replayed' : '');
        case 'strict1':
            return 'ids' . $strict(1, $number(2))->text();
        case 'texts':
            $got = source($client, 'texts', $word(1))->request($number(2), $key, $deadline);
            return 'texts ' . ($got['replayed'] ? 'replayed ' : 'new ') . implode(' ', $got['texts']);
        case 'textid':
            return 'textid ' . source($client, 'texts', $word(1))->decode($word(2), $deadline);
        case 'snowflake':
            return 'ids' . $snowflake($number(1))->text();
        case 'threads':
        case 'benchthreads':
            return 'unsupported';
        case 'events':
            $told = Events::$counts;
            Events::$counts = [];
            return 'events' . implode('', array_map(static fn ($kind) => " $kind $told[$kind]", array_keys($told)));
        case 'fork':
            return forked($client, static fn () => $segment($number(2)));
        case 'forksnow':
            return forked($client, static fn () => $snowflake($number(1)));
        case 'loop':
            return repeated(source($client, 'segment', $word(1))->next(...), $number(2));
        case 'mix':
            $ids = [new Ids(), new Ids(), new Ids()];
            $until = hrtime(true) + $number(3) * 1_000_000_000;
            while (hrtime(true) < $until) {
                foreach ([source($client, 'segment', $word(1))->next(), source($client, 'strict', $word(2))->next(),
                    source($client, 'snowflake', '-')->next()] as $kind => $id) {
                    $ids[$kind]->add($id, $id);
                }
            }
            return 'mix ids' . implode(' ;', array_map(static fn ($kind) => $kind->text(), $ids));
        case 'bench':
            $source = source($client, 'segment', $word(1));
            for ($i = 0; $i < $number(2) / 10; $i++) {
                $source->next();
            }
            $began = hrtime(true);
            for ($i = $number(2); $i > 0; $i--) {
                $source->next();
            }
            return sprintf('bench %.2f', (hrtime(true) - $began) / $number(2));
        case 'decode':
            return vsprintf('decode %d %d %d', array_values(source($client, 'snowflake', '-')->decode($number(1))));
        case 'at':
            return 'at ' . source($client, 'snowflake', '-')->at($number(1));
        case 'stats':
            $stats = $client->stats();
            return 'stats ' . implode(' ', array_map(static fn ($name) => "$name=$stats[$name]", array_keys($stats)));
        case 'statstext':
            return 'statstext ' . strtr($client->statsText(), "\n", '|');
        case 'close_source':
            source($client, $word(1), $word(2))->close();
            return 'ok';
        case 'close':
            $client->close();
            return 'ok';
        default:
            throw new UnexpectedValueException('that is no command');
    }
}

$client = null;
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', rtrim($line, "\n"));
    $deadline = null;
    if ($words[0] !== 'open' && str_starts_with(end($words), 'deadline_ms=')) {
        $deadline = (int)substr(array_pop($words), 12);
    }
    try {
        if ($words[0] === 'open') {
            $client = null;
            $client = open(array_slice($words, 1));
            $said = 'ok';
        } else {
            $said = answer($client, $words, $deadline);
        }
    } catch (LeafdException $error) {
        $said = "error {$error->getCode()} $error->status " . strtr($error->getMessage(), "\r\n", '  ');
    } catch (UnexpectedValueException $fault) {
        fwrite(STDERR, "driver: {$fault->getMessage()}\n");
        exit(2);
    }
    echo $said, "\n";
}

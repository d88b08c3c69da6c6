<?php
// Tests of the library that take no node: ranges that processes share, what is refused, forks.
// Exit code 0, or 1 with a line for each check that failed. `make test` runs it with APCu.
declare(strict_types=1);

use Leafd\Answer;
use Leafd\Client;
use Leafd\Discovery;
use Leafd\Fake;
use Leafd\LeafdException;
use Leafd\Nodes;
use Leafd\OwnShelf;
use Leafd\Segment;
use Leafd\Settings;
use Leafd\SharedShelf;
use Leafd\Shelf;

require dirname(__DIR__) . '/autoload.php';

$failures = 0;

function check(bool $right, string $what): void
{
    global $failures;
    if (!$right) {
        fwrite(STDERR, "run: $what\n");
        $failures++;
    }
}

function refused(string $code, string $word, callable $call): void
{
    try {
        $call();
        check(false, "no $code: $word");
    } catch (LeafdException $error) {
        check($error->getCode() === $code && str_contains($error->getMessage(), $word),
            "$code, $word: {$error->getCode()} {$error->getMessage()}");
    }
}

/**
 * A node in a process of its own: a range of the counter for each request. Returns its URL; the
 * process ends with $parent's end of the pipe.
 */
function node(): array
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $url = 'http://' . stream_socket_get_name($listener, false);
    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    if (pcntl_fork() !== 0) {
        fclose($listener);
        fclose($pair[1]);
        return [$url, $pair[0]];
    }
    fclose($pair[0]);
    $next = 1;
    $requests = 0;
    $open = [];
    for (;;) {
        $ready = [$pair[1], $listener, ...$open];
        $none = null;
        stream_select($ready, $none, $none, null);
        foreach ($ready as $stream) {
            if ($stream === $pair[1]) {
                if (fgets($stream) === false) {
                    posix_kill(getmypid(), SIGKILL); // without the parent's destructors
                }
                fwrite($stream, "$requests\n");
            } elseif ($stream === $listener) {
                $open[] = stream_socket_accept($listener);
            } elseif (($line = fgets($stream)) === false) {
                unset($open[array_search($stream, $open, true)]);
                fclose($stream);
            } elseif (preg_match('/count=(\d+)/', $line, $part)) {
                while (rtrim((string)fgets($stream)) !== '') {
                    continue;
                }
                $requests++;
                usleep(10000); // the server's time, in which others could ask
                $body = $next . ' ' . ($next + (int)$part[1] - 1) . "\n";
                $next += (int)$part[1] + 7;
                fwrite($stream, "HTTP/1.1 200 OK\r\nContent-Length: " . strlen($body) . "\r\n\r\n$body");
            }
        }
    }
}

/** Ids of so many processes, a list each. $between: what a process does after each tenth of them. */
function in_children(int $processes, Client $client, int $count, callable $between): array
{
    $files = [];
    $gate = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0); // so that all begin together
    for ($i = 0; $i < $processes; $i++) {
        $files[$i] = tmpfile();
        $children[$i] = pcntl_fork();
        if ($children[$i] === 0) {
            fclose($gate[1]);
            fgets($gate[0]);
            for ($at = 0; $at < $count; $at++) {
                fwrite($files[$i], $client->segment('orders')->next() . "\n");
                if ($at % max(1, intdiv($count, 10)) === 0) {
                    $between();
                }
            }
            $client->close(); // which ends what it asks for
            posix_kill(getmypid(), SIGKILL);
        }
    }
    fclose($gate[1]);
    foreach ($children as $child) {
        pcntl_waitpid($child, $status);
        check(pcntl_wifsignaled($status) && pcntl_wtermsig($status) === SIGKILL, "a child ended with $status");
    }
    return array_map(static function ($file): array {
        rewind($file);
        return array_map('intval', explode("\n", rtrim(stream_get_contents($file))));
    }, $files);
}

/** All ids are there, and none is twice. */
function check_once(array $lists, int $count, string $what): void
{
    $all = array_merge(...$lists);
    check(count($all) === $count, "$what: " . count($all) . " ids, not $count");
    check(count(array_unique($all)) === count($all), "$what: an id came twice");
    foreach ($lists as $list) {
        $sorted = $list;
        sort($sorted);
        check($list === $sorted, "$what: ids of a process do not rise");
    }
}

function test_processes_share_a_range(): void
{
    [$url, $pipe] = node();
    $client = new Client(['endpoints' => $url, 'min_count' => 1000, 'max_count' => 1000,
        'deadline_ms' => 60000, 'connect_ms' => 30000]);
    check_once(in_children(6, $client, 500, static fn () => null), 3000, 'shared');
    fwrite($pipe, "how many\n");
    $requests = (int)fgets($pipe);
    check($requests >= 3 && $requests <= 4, "$requests requests of 1000 ids, for 3000");
}

/** A full cache is emptied whenever it likes. */
function test_entries_that_are_lost(): void
{
    [$url, $pipe] = node();
    $client = new Client(['endpoints' => $url, 'min_count' => 50, 'max_count' => 50,
        'deadline_ms' => 60000]);
    check_once(in_children(6, $client, 500, 'apcu_clear_cache'), 3000, 'lost entries');
}

/** What is shared was lost, and another process put down ids that it had asked for before. */
function test_ids_of_a_process_rise_though_entries_are_lost(): void
{
    $fake = new Fake();
    $client = $fake->client(['min_count' => 10, 'max_count' => 10]);
    $orders = $client->segment('order');
    $before = hrtime(true);
    $fake->setNext('order', 101);
    check($orders->next() === 101, 'the first of all');
    $shelf = (new ReflectionProperty($orders, 'shelf'))->getValue($orders);
    $state = $shelf->get('state order');
    $low = fn (int $sent) => ['sent' => $sent, 'taken' => hrtime(true), 'size' => 5, 'ranges' => [[5, 1, 0]]];
    foreach ([[$before, 102], [hrtime(true), 1]] as [$sent, $next]) { // asked for later: the tag was set back
        $shelf->put('next 5 order', 1);
        $shelf->put('state order', ['held' => [$low($sent), ...$state['held']]] + $state);
        check(($id = $orders->next()) === $next, "$id after 101, not $next");
    }
}

/** Between what a process read and what it writes, anything may happen to an entry. */
function test_a_counter_that_was_lost(Shelf $shelf): void
{
    $shelf->put('next', 5);
    check($shelf->change('next', 5, 6) && !$shelf->change('next', 5, 6), 'one change alone');
    check($shelf->drop('next') && !$shelf->drop('next'), 'one drop alone');
    check(!$shelf->change('next', 6, 7) && $shelf->get('next') === null, 'no entry is made');
}

function test_what_is_shared_by_whom(): void
{
    $one = new SharedShelf(new Settings(['endpoints' => 'http://a', 'token' => 'x']));
    $two = new SharedShelf(new Settings(['endpoints' => 'http://a', 'token' => 'y']));
    $one->put('state orders', 1);
    check($two->get('state orders') === null, 'another token, other ranges');
}

function test_a_child_has_nothing_of_its_parent(): void
{
    $shelf = new OwnShelf();
    $shelf->get('next');
    $shelf->put('next', 5);
    $child = pcntl_fork();
    if ($child === 0) {
        posix_kill(getmypid(), $shelf->get('next') === null ? SIGKILL : SIGTERM);
    }
    pcntl_waitpid($child, $status);
    check(pcntl_wtermsig($status) === SIGKILL, 'a child sees a range of its parent');
    check($shelf->get('next') === 5, 'the parent has lost it');
}

/** An answer that came before a fork is its parent's alone, whatever the child calls first. */
function test_a_child_leaves_what_its_parent_asked_for(): void
{
    foreach (['stats', 'statsText', 'segment'] as $first) {
        $fake = new Fake();
        $client = $fake->client(['min_count' => 10, 'max_count' => 10]);
        $orders = $client->segment('order');
        for ($i = 1; $i <= 6; $i++) { // less than half is left: the spare range was asked for
            $orders->next();
        }
        $child = pcntl_fork();
        if ($child === 0) {
            $fake->fail(PHP_INT_MAX, 503, 'no_leader');
            $client->$first('order');
            try {
                $orders->next(50);
                posix_kill(getmypid(), SIGTERM);
            } catch (LeafdException) {
                posix_kill(getmypid(), SIGKILL);
            }
        }
        pcntl_waitpid($child, $status);
        check(pcntl_wtermsig($status) === SIGKILL, "after $first() a child has an id of its parent's");
        $fake->fail(PHP_INT_MAX, 503, 'no_leader');
        for ($i = 7; $i <= 20; $i++) {
            check($orders->next(50) === $i, 'its parent goes on');
        }
    }
}

/** Before PHP 8.4 a destructor runs no fibers. */
function test_ids_in_a_destructor(): void
{
    [$url, $pipe] = node();
    $client = new Client(['endpoints' => $url, 'deadline_ms' => 60000]);
    $ids = [];
    foreach (['fresh', 'asked'] as $tag) {
        $orders = $client->segment($tag);
        for ($i = 0; $tag === 'asked' && $i < 60; $i++) { // the spare range is asked for
            $ids[] = $orders->next();
        }
        $last = new class ($orders, $ids) {
            public function __construct(private $orders, private array &$ids)
            {
            }

            public function __destruct()
            {
                for ($i = 0; $i < 150; $i++) {
                    $this->ids[] = $this->orders->next();
                }
            }
        };
        unset($last);
    }
    check(count(array_unique($ids)) === 360, 'a destructor gets ids');
}

/** Numbers that PHP would round, or take for the largest one. */
function test_ranges_at_the_bounds(): void
{
    $answer = new Answer();
    $answer->status = 200;
    foreach (["9223372036854775807 9223372036854775808\n", "9999999999999999999 9999999999999999999\n",
        "0 9223372036854775807\n", "1 2\n\n", "1 1\n2 2\n3 3"] as $answer->body) {
        refused('bad_answer', 'status 200', static fn () => $answer->ranges(2));
    }
    $answer->body = "9223372036854775806 9223372036854775807\n";
    check($answer->ranges(2) === [[PHP_INT_MAX - 1, PHP_INT_MAX, 1]], 'the last ids that there are');
}

function test_arguments(): void
{
    $client = new Client(['endpoints' => 'http://127.0.0.1:9', 'deadline_ms' => 1]);
    foreach (["\n", "a\0", "\xff", ''] as $name) {
        refused('bad_setting', '128 bytes', static fn () => $client->segment($name));
    }
    refused('bad_setting', 'key', static fn () => $client->strict('a')->request(1, "k\n"));
    refused('bad_setting', 'text', static fn () => $client->texts('a')->decode("A1\n"));
    refused('bad_setting', 'deadline_ms', static fn () => $client->segment('a')->next(0));
    refused('bad_setting', 'id', static fn () => $client->snowflake()->decode(-1));
    refused('bad_setting', 'colour', static fn () => new Client(['colour' => 'red']));
    refused('bad_setting', 'cover_ms', static fn () => new Client(['endpoints' => 'http://a', 'cover_ms' => '5']));
    refused('bad_setting', 'endpoints', static fn () => new Client(['endpoints' => "http://a\n"]));
    check($client->stats()['requests'] === 0, 'something was sent');
    try {
        $client->strict('a')->request(1, 'order-4711');
    } catch (LeafdException $error) {
        check($error->retryable && $error->key === 'order-4711', 'the key to come again with');
    }
}

/** A cluster in memory, as a program's own tests have it; nothing of it is in APCu. */
function test_the_fake(): void
{
    $fake = new Fake();
    $client = $fake->client(['deadline_ms' => 2000, 'max_count' => 100]);
    $second = $fake->client();
    $orders = $client->segment('order');
    check([$orders->next(), $orders->next()] === [1, 2], 'ids begin at 1');
    $fake->setNext('order', 1000);
    check($orders->next() === 1000 && $orders->nextRange(5) === [1100, 1104, 1], 'ids go on as set');
    check($second->segment('order')->next() === 1105, 'another client has other ids');
    $invoice = $client->strict('invoice');
    $first = $invoice->request(2, 'order-1');
    check($first['last'] === 2 && !$first['replayed'], 'strict ids');
    check($invoice->request(2, 'order-1') == ['replayed' => true] + $first, 'a key has the same ids');
    check($client->texts('a')->request(2)['texts'] === ['1', '2'] && $client->texts('a')->decode('2') === 2, 'texts');
    $made = [$client->snowflake()->next(), $second->snowflake()->next()];
    $parts = array_map(static fn ($id) => $client->snowflake()->decode($id)['workerId'], $made);
    check($parts === [0, 1], 'each has a worker id');
    $fake->fail(2, 503, 'no_leader');
    check($invoice->next() === 3 && $client->stats()['retries'] === 2, 'it asks again');
    $fake->fail(1, 404, 'unknown_tag');
    refused('unknown_tag', 'as the test', static fn () => $client->segment('none')->next());
    $fake->fail(PHP_INT_MAX, 0, '');
    refused('unreachable', 'the connection broke', static fn () => $invoice->next(100));
}

/** An id, once an error that holds is forgotten. */
function comes(Leafd\Segment $source): int
{
    for ($until = hrtime(true) + 30_000_000_000;;) {
        try {
            return $source->next();
        } catch (LeafdException $error) {
            if (hrtime(true) > $until) {
                throw $error;
            }
            usleep(10000);
        }
    }
}

/** Each kind of event, once; with what belongs to it; and a hook that calls the client, or fails. */
function test_events(): void
{
    $told = [];
    $fake = new Fake();
    $settings = ['max_age_ms' => 20, 'window_ms' => 1000, 'min_count' => 10, 'max_count' => 10];
    $client = $fake->client($settings, function (string $kind, array $with) use (&$told, &$client): void {
        $told[] = [$kind, $with];
        $client->segment('order')->next();
        throw new RuntimeException('of the hook');
    });
    $log = ini_set('error_log', '/dev/null');
    $orders = $client->segment('order');
    $orders->next();
    $fake->fail(1, 404, 'unknown_tag');
    $others = $client->segment('other');
    refused('unknown_tag', '', $others->next(...));
    refused('unknown_tag', '', $others->next(...)); // the error holds for a second
    comes($others);
    check(array_slice($told, 0, 2) === [['refill_failed', ['tag' => 'other', 'code' => 'unknown_tag']],
        ['recovered', ['tag' => 'other']]], 'refill_failed and recovered: ' . json_encode($told));
    $told = [];
    usleep(30000);
    $others->next();
    check(in_array(['aged', ['tag' => 'other', 'ids' => 9]], $told, true), 'aged: ' . json_encode($told));
    $told = [];
    $fake->setNext('no other', 1); // the generation rises
    $others->nextRange(1);
    check($told === [['generation', ['tag' => 'other', 'ids' => 9]]], 'generation: ' . json_encode($told));
    $client->snowflake('me')->next();
    $until = hrtime(true) + 1_000_000_000; // it renews a third into its window
    $fake->fail(PHP_INT_MAX, 409, 'fenced');
    $told = [];
    try {
        while (hrtime(true) < $until) {
            $client->snowflake('me')->next();
        }
    } catch (LeafdException $error) {
        check($error->getCode() === 'fenced', 'fenced');
    }
    check($told[0] === ['fenced', ['name' => 'me']], 'fenced: ' . json_encode($told));
    $fake->fail(0, 0, '');
    ini_set('error_log', (string)$log);
}

/** A node that takes connections and never answers; it ends with the listener. */
function silent_node(): array
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    return ['http://' . stream_socket_get_name($listener, false), $listener];
}

/** The rest of a range, beyond which its first caller has asked for more. */
function test_a_process_that_asked_and_calls_nothing(): void
{
    [$url, $pipe] = node();
    $settings = ['endpoints' => $url, 'min_count' => 100, 'max_count' => 100, 'deadline_ms' => 60000];
    [$asks, $waits] = [new Client($settings), new Client($settings)];
    $ids = [];
    for ($i = 0; $i < 51; $i++) {
        $ids[] = $asks->segment('idle')->next();
    }
    for ($i = 0; $i < 60; $i++) {
        $ids[] = $waits->segment('idle')->next();
    }
    for ($i = 0; $i < 300; $i++) {
        $ids[] = ($i % 2 ? $asks : $waits)->segment('idle')->next();
    }
    check_once([$ids], 411, 'another waits');
}

function test_a_source_that_is_closed_while_it_asks(): void
{
    [$url, $pipe] = node();
    $settings = ['endpoints' => $url, 'min_count' => 100, 'max_count' => 100, 'deadline_ms' => 60000,
        'connect_ms' => 30000];
    [$one, $two] = [new Client($settings), new Client($settings)];
    $ids = [];
    for ($i = 0; $i < 51; $i++) {
        $ids[] = $one->segment('closed')->next();
    }
    $one->segment('closed')->close();
    $shelf = new SharedShelf(new Settings($settings));
    check($shelf->lock('lock closed') && $shelf->drop('lock closed'), 'a source that is closed has the lock');
    for ($i = 0; $i < 90; $i++) {
        $ids[] = $two->segment('closed')->next();
    }
    check_once([$ids], 141, 'after close()');
    fwrite($pipe, "how many\n");
    $requests = (int)fgets($pipe);
    check($requests === 2, "$requests requests: what a closed source asked for is lost");
}

function test_a_client_that_is_closed_while_it_asks(): void
{
    [$url, $listener] = silent_node();
    $client = new Client(['endpoints' => $url]);
    refused('unreachable', '', static fn () => $client->segment('orders')->next(50));
    $client->close();
    check($client->stats()['errors'] === 1, 'counters after close()');
    refused('closed', '', static fn () => $client->segment('orders'));
}

/** Whatever call is under way fails with "closed". */
function test_a_hook_that_closes_its_client(): void
{
    [[$first, $one], [$second, $two]] = [silent_node(), silent_node()];
    $made = static function () use ($first, $second, &$client): Client {
        return $client = new Client(['endpoints' => "$first,$second", 'deadline_ms' => 60000],
            static function (string $kind) use (&$client): void {
                check($kind === 'failover', "$kind of a client that its hook closes");
                $client->close();
            });
    };
    foreach ([static fn (Client $client) => $client->segment('orders')->next(),
        static fn (Client $client) => $client->segment('orders')->nextMany(2),
        static fn (Client $client) => $client->segment('orders')->nextRange(2),
        static fn (Client $client) => $client->strict('orders')->next(),
        static fn (Client $client) => $client->texts('orders')->next(),
        static fn (Client $client) => $client->snowflake()->next()] as $call) {
        refused('closed', '', static fn () => $call($made()));
        $client->stats();
    }
    // The event may come of another request, during this one's.
    $told = false;
    $client = new Client(['endpoints' => "$first,$second", 'deadline_ms' => 60000],
        static function (string $kind) use (&$client, &$told): void {
            $told = $told || $kind === 'failover';
            $kind !== 'failover' || $client->close();
        });
    try {
        $client->segment('orders')->next(1);
    } catch (LeafdException $error) {
        check($told || $error->getCode() === 'unreachable', $error->getMessage());
    }
    refused('closed', '', static fn () => $client->segment('other')->nextRange(2));

    $fake = new Fake();
    $settings = ['endpoints' => 'http://127.0.0.1:1,http://127.0.0.1:2', 'window_ms' => 1000];
    $client = $fake->client($settings, static function () use (&$client): void {
        $client->close();
    });
    $mine = $client->snowflake();
    $mine->next();
    $fake->fail(1, 503, 'no_leader'); // the renewal
    refused('closed', '', static function () use ($mine): void {
        for ($until = hrtime(true) + 30_000_000_000; hrtime(true) < $until;) {
            $mine->next();
        }
    });
}

/** It ends while its parent asks, and the time to wait for requests is over before the last tag's turn. */
function test_a_child_leaves_its_parents_locks(): void
{
    static $client; // for the child's end
    [$url, $listener] = silent_node();
    $settings = ['endpoints' => $url];
    $client = new Client($settings);
    foreach (['a', 'b', 'c'] as $tag) {
        refused('unreachable', '', static fn () => $client->segment($tag)->next(1));
    }
    $child = pcntl_fork();
    if ($child === 0) {
        exit(0);
    }
    pcntl_waitpid($child, $status);
    $shelf = new SharedShelf(new Settings($settings));
    foreach (['a', 'b', 'c'] as $tag) {
        check(!$shelf->lock("lock $tag"), "a child has dropped the lock of $tag");
    }
    $client = null;
}

/** Nodes at these ports, whose listings name all of them and the uid of $uids. */
function discovery(array $ports, array &$uids, OwnShelf $shelf): Discovery
{
    $rows = [];
    foreach ($ports as $at => $port) {
        $rows[] = ['id' => $at + 1, 'http_address' => "127.0.0.1:$port", 'zone' => null, 'weight' => 100,
            'state' => 'ready', 'snowflake' => true];
        $urls[] = "http://127.0.0.1:$port";
    }
    $attempt = static function (string $url) use ($rows, $urls, &$uids): Answer {
        $answer = new Answer();
        $answer->status = 200;
        $answer->body = json_encode(['self' => array_search($url, $urls, true) + 1, 'uid' => $uids[$url] ?? null,
            'nodes' => $rows]);
        $answer->broken = isset($uids[$url]) ? null : 'it is silent';
        return $answer;
    };
    return new Discovery(new Settings(['endpoints' => $urls, 'discover' => true]), $shelf, $attempt,
        static fn () => null);
}

/** All nodes of another cluster are known as such, however many there are. */
function test_many_nodes_of_another_cluster(): void
{
    $shelf = new OwnShelf();
    $ports = range(1001, 1064);
    $uids = ['http://127.0.0.1:1001' => 'own'];
    $discovery = discovery($ports, $uids, $shelf);
    check($discovery->look(null, false), 'a listing');
    foreach ($ports as $port) {
        $uids["http://127.0.0.1:$port"] = 'another';
    }
    $shelf->put('nodes', ['asked' => null] + $shelf->get('nodes')); // the next listing is due
    check(!$discovery->look(null, false), 'a listing of another cluster');
    $others = array_filter(array_keys($uids), static fn ($url) => $discovery->foreign($url) !== null);
    check(count($others) === 64, count($others) . ' nodes of another cluster, of 64');
}

function test_no_second_request_to_another_cluster(): void
{
    [$a, $b, $c] = ['http://127.0.0.1:1001', 'http://127.0.0.1:1002', 'http://127.0.0.1:1003'];
    foreach ([[1001, 1002, 1003], [1001, 1002]] as $ports) {
        $shelf = new OwnShelf();
        $uids = [$a => 'own'];
        $discovery = discovery($ports, $uids, $shelf);
        check($discovery->look(null, false), 'a listing');
        $uids = [$b => 'another'];
        $shelf->put('nodes', ['asked' => null] + $shelf->get('nodes'));
        check(!$discovery->look(null, false), 'a listing of another cluster');
        $beside = $discovery->beside('ids', $a);
        check($beside === (count($ports) === 3 ? $c : null), 'a second request goes to ' . $beside);
    }
}

/** A hook that calls the client is not called for the events of that call before it has ended. */
function test_a_hook_that_calls_its_client(): void
{
    $depth = $most = $calls = 0;
    $client = new Client(['endpoints' => 'http://127.0.0.1:1,http://127.0.0.1:2', 'deadline_ms' => 300],
        static function () use (&$client, &$depth, &$most, &$calls): void {
            $most = max($most, ++$depth);
            if (++$calls <= 2) {
                refused('unreachable', '', static fn () => $client->segment('other')->next(100));
                refused('unreachable', '', static fn () => $client->segment('other')->nextRange(1, 100));
                refused('unreachable', '', static fn () => $client->strict('other')->next(100));
            }
            $depth--;
        });
    refused('unreachable', '', static fn () => $client->segment('orders')->next());
    refused('unreachable', '', static fn () => $client->segment('orders')->nextRange(1));
    check($most === 1 && $calls > 2, "$calls calls of the hook, $most at a time");
}

/** What "generation" drops is known to a call of the hook; what that call brought is kept. */
function test_a_hook_that_asks_when_the_generation_rises(): void
{
    $fake = new Fake();
    $ids = [];
    $client = $fake->client(['min_count' => 10, 'max_count' => 10],
        static function () use (&$client, &$ids): void {
            $ids[] = $client->segment('orders')->next();
        });
    $orders = $client->segment('orders');
    $orders->next();
    $fake->setNext('another', 1); // the generation rises
    check($orders->nextRange(1)[0] === 11 && $ids === [12], 'ids of the hook: ' . json_encode($ids));
    check($orders->next() === 13, 'what the hook asked for is kept');
}

/** A shelf on which another process puts down that a tag is paused, just before ids are put down. */
final class PausedMeanwhile implements Shelf
{
    private OwnShelf $shelf;
    private bool $pauses = true;

    public function __construct()
    {
        $this->shelf = new OwnShelf();
    }

    public function get(string $name): mixed
    {
        return $this->shelf->get($name);
    }

    public function put(string $name, mixed $value): void
    {
        if ($this->pauses && $name === 'state orders' && $value['held'] !== []) {
            $this->pauses = false; // it found nothing held
            $this->shelf->put('paused orders', hrtime(true));
        }
        $this->shelf->put($name, $value);
    }

    public function change(string $name, int $old, int $new): bool
    {
        return $this->shelf->change($name, $old, $new);
    }

    public function drop(string $name): bool
    {
        return $this->shelf->drop($name);
    }

    public function lock(string $name): bool
    {
        return true;
    }

    public function isShared(): bool
    {
        return true;
    }
}

/** Ids that were asked for before another process found the tag paused are burnt, all of them. */
function test_a_tag_that_another_process_finds_paused(): void
{
    $settings = new Settings(['endpoints' => 'http://a', 'min_count' => 10, 'max_count' => 10]);
    $shelf = new PausedMeanwhile();
    $next = 1;
    $nodes = new Nodes($settings, $shelf, null, static function () use (&$next): Answer {
        $answer = new Answer();
        $answer->status = 200;
        $answer->body = "$next " . ($next + 9) . "\n";
        $next += 10;
        return $answer;
    });
    $id = (new Segment($nodes, $shelf, 'orders'))->next();
    check($id === 11 && $nodes->counters['burnt'] === 10, "id $id, {$nodes->counters['burnt']} are burnt");
}

/** A child that the hook makes returns from it into its parent's call, whose ids are the parent's. */
function test_a_hook_that_forks(): void
{
    [$url, $pipe] = node();
    foreach ([static fn (Client $client, string $tag) => $client->segment($tag)->nextMany(2),
        static fn (Client $client, string $tag) => $client->segment($tag)->nextRange(2),
        static fn (Client $client, string $tag) => [$client->strict($tag)->next()]] as $at => $call) {
        for ($child = null, $try = 0; $child === null; $try++) { // the node asked first is a random one
            $client = new Client(['endpoints' => "http://127.0.0.1:1,$url", 'deadline_ms' => 60000],
                static function () use (&$child): void {
                    $child ??= pcntl_fork();
                });
            $ids = $error = null;
            try {
                $ids = $call($client, "forks $at $try");
            } catch (LeafdException $error) {
            }
            if ($child === 0) {
                $again = $call($client, "forks again $at");
                posix_kill(getmypid(), $error?->getCode() === 'unreachable' && $again ? SIGKILL : SIGTERM);
            }
        }
        pcntl_waitpid($child, $status);
        check(pcntl_wtermsig($status) === SIGKILL, "call $at: a child of the hook has ids of its parent's");
        check($ids !== null, "call $at of its parent: {$error?->getMessage()}");
    }
}

function test_a_hook_that_forks_as_a_worker_id_is_renewed(): void
{
    $fake = new Fake();
    $client = $fake->client(['endpoints' => 'http://127.0.0.1:1,http://127.0.0.1:2', 'window_ms' => 1000],
        static function () use (&$child): void {
            $child ??= pcntl_fork();
        });
    $mine = $client->snowflake();
    $worker = $mine->decode($mine->next())['workerId'];
    $fake->fail(1, 503, 'no_leader'); // the renewal
    while ($child === null) {
        try {
            $id = $mine->next();
        } catch (LeafdException) {
            $id = null;
        }
    }
    if ($child === 0) {
        $id ??= $mine->next();
        posix_kill(getmypid(), $mine->decode($id)['workerId'] !== $worker ? SIGKILL : SIGTERM);
    }
    pcntl_waitpid($child, $status);
    check(pcntl_wtermsig($status) === SIGKILL, 'a child of the hook makes ids of its parent\'s worker id');
    check($mine->decode($mine->next())['workerId'] === $worker, 'its parent has lost the worker id');
}

/** Nodes at 127.0.0.1:1 and :2, of which the first one asked fails; $requests: what was asked. */
function failing_once(?array &$requests, callable $hook): Client
{
    $requests = [];
    return new Client(['endpoints' => 'http://127.0.0.1:1,http://127.0.0.1:2'], $hook,
        static function (array $request) use (&$requests): Answer {
            $requests[] = $request[0];
            $answer = new Answer();
            $answer->broken = count($requests) === 1 ? 'the connection broke' : null;
            $answer->status = $request[0] === 'DELETE' ? 204 : 201;
            $answer->body = json_encode(['worker_id' => 1, 'epoch' => 1, 'from_ms' => 0, 'until_ms' => PHP_INT_MAX,
                'layout' => ['epoch_ms' => 0, 'time_bits' => 41, 'worker_bits' => 10, 'sequence_bits' => 12]]);
            return $answer;
        });
}

function test_a_worker_id_that_comes_after_its_source_was_closed(): void
{
    $client = failing_once($requests, static function () use (&$client): void {
        $client->snowflake()->close();
    });
    refused('closed', '', $client->snowflake()->next(...));
    check($requests === ['POST', 'POST', 'DELETE'], 'it is released: ' . implode(' ', $requests));
}

/** A listing that was abandoned is due as before, and its lock is free. */
function test_a_listing_that_is_abandoned(): void
{
    $shelf = new SharedShelf(new Settings(['endpoints' => 'http://abandoned']));
    $discovery = new Discovery(new Settings(['endpoints' => 'http://abandoned', 'discover' => true]), $shelf,
        static function () use (&$asked): Answer {
            $asked++;
            \Fiber::suspend();
            return new Answer();
        }, static fn () => null);
    foreach ([1, 2] as $times) {
        $fiber = new \Fiber(static fn () => $discovery->look(null, false));
        $fiber->start();
        $fiber = null;
        check($asked === $times, "asked $asked times, not $times");
    }
}

/** What another process found out about nodes is kept. */
function test_processes_that_share_a_listing(): void
{
    [$shelf, $uids] = [new OwnShelf(), ['http://127.0.0.1:1001' => 'own', 'http://127.0.0.1:1002' => 'own']];
    [$one, $two] = [discovery([1001, 1002], $uids, $shelf), discovery([1001, 1002], $uids, $shelf)];
    check($one->look(null, false) && !$two->look(null, false), 'a listing');
    $uids = ['http://127.0.0.1:1001' => 'another', 'http://127.0.0.1:1002' => 'own'];
    $one->prove('http://127.0.0.1:1001', 1);
    check($two->prove('http://127.0.0.1:1002', 1), 'a node that is proven');
    $two->look(null, false);
    check($two->foreign('http://127.0.0.1:1001') !== null, 'a node of another cluster is forgotten');
}

if (!apcu_enabled()) {
    fwrite(STDERR, "run: APCu is off: php -d apc.enable_cli=1\n");
    exit(1);
}
test_processes_share_a_range();
test_entries_that_are_lost();
test_ids_of_a_process_rise_though_entries_are_lost();
test_a_counter_that_was_lost(new OwnShelf());
test_a_counter_that_was_lost(new SharedShelf(new Settings(['endpoints' => 'http://a'])));
test_what_is_shared_by_whom();
test_a_child_has_nothing_of_its_parent();
test_a_child_leaves_what_its_parent_asked_for();
test_ids_in_a_destructor();
test_ranges_at_the_bounds();
test_arguments();
test_the_fake();
test_events();
test_a_client_that_is_closed_while_it_asks();
test_a_hook_that_closes_its_client();
test_a_hook_that_calls_its_client();
test_a_hook_that_asks_when_the_generation_rises();
test_a_tag_that_another_process_finds_paused();
test_a_hook_that_forks();
test_a_hook_that_forks_as_a_worker_id_is_renewed();
test_a_worker_id_that_comes_after_its_source_was_closed();
test_a_listing_that_is_abandoned();
test_processes_that_share_a_listing();
test_many_nodes_of_another_cluster();
test_no_second_request_to_another_cluster();
ini_set('apc.use_request_time', '1'); // locks last, however slow the machine is
test_a_process_that_asked_and_calls_nothing();
test_a_source_that_is_closed_while_it_asks();
test_a_child_leaves_its_parents_locks();
echo $failures === 0 ? "run: passed\n" : "run: $failures checks failed\n";
exit($failures === 0 ? 0 : 1);

<?php
declare(strict_types=1);

namespace Leafd;

/**
 * Ids of a leafd cluster.
 *
 * The happy path: new Client(['endpoints' => 'http://10.0.0.1:8080,http://10.0.0.2:8080']), then
 * segment('orders')->next(). What the library does, and what it promises, is in docs/clients.md of
 * leafd. Failure modes: every call ends by its deadline, with ids or a LeafdException.
 *
 * Where APCu is enabled, all requests of a web server share the ranges of their segments; else each
 * process has its own. A forked child drops what it inherited, but for what is shared.
 */
final class Client
{
    private readonly Nodes $nodes;
    private readonly Shelf $shelf;
    private const SOURCES_MAX = 4096;
    private static ?\WeakMap $sharing = null; // clients that share their ranges
    /** @var array<string, Segment|Strict|Texts|Snowflake> */
    private array $sources = [];

    /**
     * @param array<string, mixed> $settings by the names of docs/clients.md
     * @param ?callable(string, array): void $onEvent is given each event's kind, and what comes with it
     * @param ?\Closure $transport (request) to Answer, in place of nodes; @internal
     */
    public function __construct(array $settings = [], ?callable $onEvent = null, ?\Closure $transport = null)
    {
        $checked = new Settings($settings);
        $shared = $transport === null && function_exists('apcu_enabled') && apcu_enabled();
        $this->shelf = $shared ? new SharedShelf($checked) : new OwnShelf();
        $this->nodes = new Nodes($checked, $this->shelf, $onEvent, $transport);
        if ($shared) {
            self::$sharing ??= self::finishAtTheEnd();
            self::$sharing[$this] = true;
        }
    }

    /** @internal What is held of the tag is dropped. */
    public function forget(string $tag): void
    {
        ($this->sources["tag $tag"] ?? null)?->forget();
    }

    /** The same source for the same tag, and at most SOURCES_MAX of all kinds. */
    public function segment(string $tag): Segment
    {
        return $this->source("tag $tag", fn () =>
            new Segment($this->nodes, $this->shelf, Settings::name('tag', $tag)));
    }

    public function strict(string $tag): Strict
    {
        return $this->source("strict $tag", fn () => new Strict($this->nodes, Settings::name('tag', $tag)));
    }

    public function texts(string $tag): Texts
    {
        return $this->source("texts $tag", fn () => new Texts($this->nodes, Settings::name('tag', $tag)));
    }

    /** For a process that lasts: its worker id is its own. Without a name one is made. */
    public function snowflake(?string $name = null): Snowflake
    {
        return $this->source($name === null ? 'own' : "name $name", fn () =>
            new Snowflake($this->nodes, $name === null ? null : Settings::name('name', $name)));
    }

    /** Releases worker ids; what is held is dropped, unless others share it. */
    public function close(): void
    {
        if (!$this->nodes->closed) {
            $this->finish(); // all within connect_ms, not each
            while (($source = array_pop($this->sources)) !== null) { // a hook may have made another
                $source->close();
            }
            $this->nodes->end();
        }
    }

    public function __destruct()
    {
        if (isset($this->nodes)) {
            $this->close();
        }
    }

    /** @return array<string, int> docs/clients.md, Counters */
    public function stats(): array
    {
        array_map(static fn (Segment $segment) => $segment->settle(), $this->segments());
        return $this->nodes->counters;
    }

    /** The same for Prometheus. */
    public function statsText(): string
    {
        $text = '';
        foreach ($this->stats() as $name => $value) {
            $text .= "# TYPE leafd_client_{$name}_total counter\nleafd_client_{$name}_total $value\n";
        }
        foreach ($this->sources as $source) {
            if (($source instanceof Segment || $source instanceof Snowflake) && !$source->isClosed()) {
                $gauges = $source->gauges();
                $label = key($gauges);
                $whose = addcslashes(array_shift($gauges), "\\\"\n");
                foreach ($gauges as $name => $value) {
                    $text .= "leafd_client_$name{{$label}=\"$whose\"} " . round($value, 3) . "\n";
                }
            }
        }
        return $text;
    }

    /** Before the end of the program: a destructor is too late for it. */
    private static function finishAtTheEnd(): \WeakMap
    {
        register_shutdown_function(static function (): void {
            foreach (self::$sharing as $client => $_) {
                $client->finish();
            }
        });
        return new \WeakMap();
    }

    /** Requests under way may end yet, for the processes that share what they bring. */
    private function finish(): void
    {
        $until = hrtime(true) + $this->nodes->settings->numbers['connect_ms'] * 1_000_000;
        foreach ($this->segments() as $segment) {
            $segment->end($until);
        }
    }

    /** @return array<string, Segment> */
    private function segments(): array
    {
        return array_filter($this->sources, static fn ($source) => $source instanceof Segment);
    }

    private function source(string $name, callable $make): Segment|Strict|Texts|Snowflake
    {
        $this->nodes->enter();
        if (isset($this->sources[$name]) && $this->sources[$name]->isClosed()) {
            unset($this->sources[$name]);
        }
        if (!isset($this->sources[$name]) && count($this->sources) === self::SOURCES_MAX) {
            throw new LeafdException('bad_setting', 'a client has at most ' . self::SOURCES_MAX . ' sources');
        }
        return $this->sources[$name] ??= $make();
    }
}

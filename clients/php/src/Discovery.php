<?php
declare(strict_types=1);

namespace Leafd;

/**
 * The nodes of the cluster, their zones, weights and states, learnt from one that is known
 * (docs/clients.md, Zones). Requests of a web server share what was learnt by APCu.
 *
 * The happy path: look() asks for the listing once AGAIN_MS have passed; order() has its nodes before
 * the endpoints. Failure modes: a node without an answer is left for the next; where all that answer do
 * not know the request (404), they are older servers, and none is asked for OLDER_MS. A node of another
 * cluster than the first listing's gets no other request. A listed node is
 * asked for ids once prove() is true: its address may lead to another cluster. None of it is counted.
 */
final class Discovery
{
    private const AGAIN_MS = 5000;
    private const OLDER_MS = 60000;
    private const AFTER_FAILURES_MS = 1000;
    private const LISTED_MAX = 48;
    private const RESOLVE_AGAIN_MS = 30000;
    private const SERVICES_MAX = 64;
    private const UID_MAX = 64;
    private const TIME_LEAST_MS = 1000; // that one call spends on it
    private const LAST_TIER = 3;
    private const REQUEST = ['GET', '/api/nodes', [], null];

    private array $state;
    private array $services = ['at' => 0, 'urls' => []]; // by endpoint: of SRV records, and of names
    /** @var array<string, true> endpoints whose names have addresses, for all that is known */
    private array $named = [];

    private bool $told = false; // of another cluster
    private bool $lasts = false; // the present listing is not the first one

    /** $attempt: (URL, request, [ms of a connection, ms of all]) to Answer; $tell: (kind, with) */
    public function __construct(private readonly Settings $settings, private readonly Shelf $shelf,
        private readonly \Closure $attempt, private readonly \Closure $tell)
    {
        $this->state = ['asked' => null, 'again' => self::AGAIN_MS, 'self' => 0, 'rows' => [],
            'proven' => [], 'uid' => null, 'foreign' => []];
    }

    /** A round begins, at the node of this URL; true: there is a new listing. */
    public function look(?string $current, bool $failed): bool
    {
        $this->state = $this->shelf->get('nodes') ?? $this->state;
        $least = $failed && $this->state['again'] === self::AGAIN_MS ? self::AFTER_FAILURES_MS
            : $this->state['again'];
        $asked = $this->state['asked'];
        if (($asked !== null && hrtime(true) - $asked < $least * 1_000_000) ||
            !$this->shelf->lock('nodes lock')) {
            return false;
        }
        $this->lasts = $asked !== null;
        $listed = null;
        $process = getmypid();
        try {
            $this->state['asked'] = hrtime(true);
            $this->shelf->put('nodes', $this->state);
            return $listed = $this->list($current);
        } finally {
            if ($listed === null && $process === getmypid()) { // its task was abandoned: it is still due
                $this->state['asked'] = $asked;
                $this->shelf->put('nodes', $this->state);
            }
            if ($process === getmypid()) { // else a child's, when its parent's task ends there
                $this->shelf->drop('nodes lock');
            }
        }
    }

    /** libcurl has found an address of this endpoint's name. */
    public function hasAddress(string $url): void
    {
        $host = trim((string)parse_url($url, PHP_URL_HOST), '[]');
        if (!str_contains($url, '#') && filter_var($host, FILTER_VALIDATE_IP) === false) {
            $this->named[$url] = true;
        }
    }

    /** Looks up the SRV records of endpoints, where that is due, and once a round has failed the addresses of
     * names that have some: that takes its time. */
    public function resolve(bool $failed): void
    {
        $all = [...$this->settings->endpoints, ...$this->settings->adminEndpoints];
        $names = preg_grep('~\+srv://~', $all);
        $hosts = $failed ? array_intersect($all, array_keys($this->named)) : [];
        if ($names === [] && $hosts === []) {
            return;
        }
        $this->services = $this->shelf->get('services') ?? $this->services;
        $at = $this->services['at'];
        $least = $failed ? self::AFTER_FAILURES_MS : self::RESOLVE_AGAIN_MS;
        if ($this->services['urls'] !== [] && hrtime(true) - $at < $least * 1_000_000) {
            return;
        }
        $this->services['at'] = hrtime(true);
        foreach (array_unique($names) as $url) {
            [$scheme, $name] = explode('+srv://', $url);
            $found = [];
            foreach (@dns_get_record($name, DNS_SRV) ?: [] as $record) {
                $place = "{$record['target']}:{$record['port']}";
                if (preg_match('~\A' . Settings::HOST . ':[1-9]\d*\z~', $place)) {
                    $found[] = strtolower($scheme) . "://$place";
                }
            }
            if ($found !== []) {
                $this->services['urls'][$url] = array_slice($found, 0, self::SERVICES_MAX);
            }
        }
        foreach (array_unique($hosts) as $url) {
            $found = self::addresses((string)parse_url($url, PHP_URL_HOST));
            if ($found !== []) { // as many nodes: URL#ADDRESS
                $this->services['urls'][$url] = array_map(static fn ($address) => "$url#$address",
                    array_slice($found, 0, self::SERVICES_MAX));
            }
        }
        $this->shelf->put('services', $this->services);
    }

    /** @return list<string> without the extension "sockets" those of IPv4 alone */
    private static function addresses(string $host): array
    {
        if (!function_exists('socket_addrinfo_lookup')) {
            return gethostbynamel($host) ?: [];
        }
        $found = @socket_addrinfo_lookup($host, null, ['ai_socktype' => SOCK_STREAM]) ?: [];
        $addresses = array_map(static fn ($one) => socket_addrinfo_explain($one)['ai_addr'], $found);
        return array_map(static fn ($one) => $one['sin_addr'] ?? "[{$one['sin6_addr']}]", $addresses);
    }

    /** @return list<string> the endpoints, in place of an SRV record or a name what is known of it */
    private function given(array $endpoints): array
    {
        return array_merge(...array_map(fn ($url) => $this->services['urls'][$url] ?? [$url], $endpoints));
    }

    /** @return list<string> URLs; those of $current's tier first, beginning there, then by tiers */
    public function order(string $which, ?string $current): array
    {
        $endpoints = $which === 'ids' ? $this->settings->endpoints : $this->settings->adminEndpoints;
        $listed = $this->settings->endpoints === $endpoints ? array_column($this->state['rows'], 'url') : [];
        $tiers = [];
        foreach (array_unique([...$this->given($endpoints), ...$listed]) as $url) {
            $tiers[$this->tier($url, $which)][] = $url;
        }
        $order = [];
        foreach (array_unique([$this->tier($current, $which), 1, 2, self::LAST_TIER]) as $tier) {
            $own = $tiers[$tier] ?? [];
            $at = array_search($current, $own, true);
            $at = $at === false ? $this->drawn($own) : $at;
            $order = [...$order, ...array_slice($own, $at), ...array_slice($own, 0, $at)];
        }
        return $order;
    }

    /** @return list<string> URLs of better tiers than that of the node where calls begin */
    public function better(string $which, string $current): array
    {
        $tier = $this->tier($current, $which);
        return array_values(array_filter($this->order($which, null),
            fn ($url) => $this->tier($url, $which) < $tier));
    }

    /** The next one of its tier, which may be asked at once, for a second request; null: there is none. */
    public function beside(string $which, string $url): ?string
    {
        foreach (array_slice($this->order($which, $url), 1) as $next) {
            if ($this->tier($next, $which) === $this->tier($url, $which) && $this->isProven($next) &&
                $this->foreign($next) === null) {
                return $next;
            }
        }
        return null;
    }

    /** 1: of the zone, or of any without one; 2: of another; 3: only when all else failed */
    public function tier(?string $url, string $which): int
    {
        $row = $this->row($url);
        if ($row === null) {
            return $url === null ? 1 : self::LAST_TIER;
        }
        if (!$row['ready'] || $row['weight'] === 0 || ($which === 'admin' && !$row['snowflake'])) {
            return self::LAST_TIER;
        }
        return $this->settings->zone === null || $row['zone'] === $this->settings->zone ? 1 : 2;
    }

    /** Of which cluster the node is, if its last listing was of another one than the client's. */
    public function foreign(string $url): ?string
    {
        return $this->state['foreign'][$url] ?? null;
    }

    public function isProven(string $url): bool
    {
        $row = $this->row($url);
        return $row === null || in_array($url, $this->given($this->settings->endpoints), true) ||
            isset($this->state['proven']["$row[id] $url"]);
    }

    /** Whether the node is the one that is listed: it knows its own number, and the address of the node
     * that listed it. $share: of the time, with so many. */
    public function prove(string $url, int $share): bool
    {
        $listing = $this->row($url) === null ? null : $this->ask($url, $share);
        $row = $this->row($url); // null: meanwhile it is not listed any more
        $self = $this->state['self'];
        if ($listing === null || $row === null || $listing['self'] !== $row['id'] ||
            !isset($this->state['rows'][$self]) || ($listing['rows'][$self]['url'] ?? null) !== $this->state['rows'][$self]['url']) {
            return false;
        }
        $this->state['proven']["$row[id] $url"] = true;
        $this->shelf->put('nodes', $this->state);
        return true;
    }

    /** The listed nodes that did not prove it yet do so, one after another. Not with the first listing: most
     * programs that PHP runs are over before these are of use. */
    public function proveOthers(): void
    {
        $urls = array_column($this->state['rows'], 'url');
        $others = array_filter($urls, fn ($url) => !$this->isProven($url));
        foreach ($this->lasts ? $others : [] as $url) {
            $this->prove($url, count($others));
        }
    }

    private function list(?string $current): bool
    {
        $older = false;
        $known = array_values(array_filter($this->order('ids', $current), $this->isProven(...)));
        foreach ($known as $url) {
            $listing = $this->ask($url, count($known), $older);
            if ($listing !== null) {
                // One that was gone meanwhile, or has moved, is to prove itself again.
                $there = array_map(static fn ($row) => "$row[id] $row[url]", $listing['rows']);
                $own = $listing['rows'][$listing['self']]['url'] ?? null;
                $proven = ($own === $url ? ["$listing[self] $url" => true] : []) + $this->state['proven'];
                $this->state = ['again' => self::AGAIN_MS,
                    'proven' => array_intersect_key($proven, array_flip($there)),
                    'uid' => $this->state['uid'] ?? $listing['uid']] + $listing + $this->state;
                $this->shelf->put('nodes', $this->state);
                return true;
            }
        }
        $this->state = ['again' => $older ? self::OLDER_MS : self::AGAIN_MS] +
            ($older ? ['rows' => []] : []) + $this->state;
        $this->shelf->put('nodes', $this->state);
        return false;
    }

    /** As Answer::listing(); null also for one of another cluster. */
    private function ask(string $url, int $share, bool &$older = false): ?array
    {
        $connectMs = $this->settings->numbers['connect_ms'];
        try {
            $timeMs = max(self::TIME_LEAST_MS, $this->settings->numbers['attempt_ms'] / 4);
            $answer = ($this->attempt)($url, self::REQUEST, [$connectMs, $timeMs / $share]);
        } catch (LeafdException $error) {
            return $error->getCode() === 'bad_answer' ? null : throw $error; // null: it is too long
        }
        $this->state = $this->shelf->get('nodes') ?? $this->state; // another process may have changed it
        $older = $older || ($answer->broken === null && $answer->status === 404);
        $listing = $answer->broken === null
            ? $answer->listing(strstr($url, '//', true), self::LISTED_MAX) : null;
        if ($listing === null) {
            return null;
        }
        $own = $this->state['uid'];
        if (!isset($listing['uid'], $own) || $listing['uid'] === $own) {
            unset($this->state['foreign'][$url]);
            return $listing;
        }
        $foreign = [$url => 'cluster ' . substr($listing['uid'], 0, self::UID_MAX) .
            ", and this client's is $own"] + $this->state['foreign'];
        $this->state['foreign'] = array_intersect_key($foreign, array_flip($this->order('ids', null))) +
            array_slice($foreign, 0, self::LISTED_MAX);
        $this->shelf->put('nodes', $this->state);
        if (!$this->told) {
            $this->told = true;
            ($this->tell)('other_cluster', ['from' => $url]);
        }
        return null;
    }

    private function row(?string $url): ?array
    {
        foreach ($this->state['rows'] as $row) {
            if ($row['url'] === $url) {
                return $row;
            }
        }
        return null;
    }

    /** The place of one of them, at random by weight. */
    private function drawn(array $urls): int
    {
        $weights = array_map(fn ($url) => max(1, $this->row($url)['weight'] ?? 1), $urls);
        $left = $urls === [] ? 0 : random_int(0, array_sum($weights) - 1);
        foreach ($weights as $at => $weight) {
            if (($left -= $weight) < 0) {
                return $at;
            }
        }
        return 0;
    }
}

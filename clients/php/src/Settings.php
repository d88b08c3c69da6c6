<?php
declare(strict_types=1);

namespace Leafd;

/** Settings of a client (docs/clients.md), checked when it is made. */
final class Settings
{
    public const COUNT_MAX = 100000; // of the server
    public const TEXTS_MAX = 1000;
    private const ENDPOINTS_MAX = 64;
    private const TOKEN_RULE = '1 to 1024 visible ASCII characters';
    private const TOKEN_LOOK_NS = 1_000_000_000; // how often the token's file is looked at
    // Name: default, lowest, highest.
    private const NUMBERS = [
        'connect_ms' => [300, 1, 600000],
        'attempt_ms' => [4000, 1, 600000],
        'deadline_ms' => [10000, 1, 600000],
        'cover_ms' => [10000, 1, 600000],
        'min_count' => [100, 1, self::COUNT_MAX],
        'max_count' => [self::COUNT_MAX, 1, self::COUNT_MAX],
        'window_ms' => [60000, 1000, 86400000],
        'max_age_ms' => [3600000, 1, 86400000],
    ];
    public const HOST = '(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?)';
    private const TEXTS = ['token', 'token_file', 'ca_file', 'cert_file', 'key_file', 'zone'];

    /** @var list<string> base URLs */
    public readonly array $endpoints;
    /** @var list<string> */
    public readonly array $adminEndpoints;
    public readonly ?string $caFile;
    public readonly ?string $certFile;
    public readonly ?string $keyFile;
    public readonly ?string $zone;
    public readonly bool $discover;
    /** @var array<string, int> those of NUMBERS */
    public readonly array $numbers;
    private ?string $token;
    private ?string $tokenFile;
    private string $seen = ''; // what the token's file was when it was read
    private int $lookedNs = 0;

    /** @param array<string, mixed> $given */
    public function __construct(array $given)
    {
        foreach (array_keys($given) as $name) {
            if (!isset(self::NUMBERS[$name]) && !in_array($name, self::TEXTS, true) &&
                !in_array($name, ['endpoints', 'admin_endpoints', 'discover'], true)) {
                throw new LeafdException('bad_setting', "$name: there is no such setting");
            }
        }
        $given = self::withEnvironment(array_filter($given, static fn ($value) => $value !== null));
        $this->endpoints = self::urls('endpoints', $given['endpoints']);
        $this->adminEndpoints = isset($given['admin_endpoints'])
            ? self::urls('admin_endpoints', $given['admin_endpoints']) : $this->endpoints;
        $this->zone = isset($given['zone']) ? self::name('zone', $given['zone']) : null;
        $discover = $given['discover'] ?? $this->zone !== null;
        if (!is_bool($discover)) {
            throw LeafdException::badSetting('discover', $discover, 'true or false');
        }
        $this->discover = $discover;
        $numbers = [];
        foreach (self::NUMBERS as $name => [$default, $low, $high]) {
            $low = $name === 'max_count' ? $numbers['min_count'] : $low;
            $numbers[$name] = self::whole($name, $given[$name] ?? $default, $low, $high);
        }
        $this->numbers = $numbers;
        $this->caFile = self::file($given, 'ca_file');
        if ($this->caFile !== null &&
            !str_contains((string)file_get_contents($this->caFile), '-----BEGIN CERTIFICATE-----')) {
            throw LeafdException::badSetting('ca_file', $this->caFile, 'a file of certificates in PEM');
        }
        $this->checkOwnCertificate(self::file($given, 'cert_file'), self::file($given, 'key_file'));
        $this->setToken($given['token'] ?? null, $given['token_file'] ?? null);
    }

    /** What is sent as the bearer token; null: none. */
    public function token(): ?string
    {
        if ($this->tokenFile !== null && hrtime(true) - $this->lookedNs >= self::TOKEN_LOOK_NS) {
            $this->lookedNs = hrtime(true);
            $this->readToken(); // where it has none, the last one is sent
        }
        return $this->token;
    }

    public static function whole(string $name, mixed $value, int $low, int $high): int
    {
        if (!is_int($value) || $value < $low || $value > $high) {
            throw LeafdException::badSetting($name, $value, "a whole number from $low to $high");
        }
        return $value;
    }

    /** A tag or the name of a holder. */
    public static function name(string $what, string $value): string
    {
        if ($value === '' || strlen($value) > 128 || !preg_match('/\A[^\x00-\x1f\x7f]*\z/u', $value)) {
            throw LeafdException::badSetting($what, $value,
                '1 to 128 bytes of UTF-8 without control characters');
        }
        return $value;
    }

    public static function visible(string $what, string $value, int $most): string
    {
        if (!preg_match('/\A[\x21-\x7e]{1,' . $most . '}\z/', $value)) {
            throw LeafdException::badSetting($what, $value, "1 to $most visible ASCII characters");
        }
        return $value;
    }

    /** Where the program names no cluster, the environment does, and says who is asking. */
    private static function withEnvironment(array $given): array
    {
        if (isset($given['endpoints'])) {
            return $given;
        }
        foreach (['endpoints', 'admin_endpoints', 'discover', ...self::TEXTS] as $name) {
            $value = getenv('LEAFD_' . strtoupper($name));
            $hasToken = str_starts_with($name, 'token') &&
                (isset($given['token']) || isset($given['token_file']));
            if ($value !== false && !isset($given[$name]) && !$hasToken) {
                $found[$name] = $name === 'discover' ? ['true' => true, 'false' => false][$value] ?? $value
                    : $value;
            }
        }
        $given += $found ?? [];
        if (!isset($given['endpoints'])) {
            throw new LeafdException('bad_setting',
                'endpoints: they must be given, here or as LEAFD_ENDPOINTS');
        }
        return $given;
    }

    /** @return list<string> without a slash at the end */
    private static function urls(string $name, mixed $given): array
    {
        $list = is_string($given) ? explode(',', $given) : $given;
        if (!is_array($list) || count($list) < 1 || count($list) > self::ENDPOINTS_MAX) {
            throw LeafdException::badSetting($name, $given, '1 to ' . self::ENDPOINTS_MAX . ' base URLs');
        }
        $host = self::HOST;
        foreach ($list as $url) {
            $good = is_string($url) &&
                preg_match("~\\Ahttps?(://$host(:(\\d{1,5}))?|\\+srv://[A-Za-z0-9_.-]{1,253})/?\\z~i", $url, $part);
            if (!$good || (isset($part[5]) && ((int)$part[5] < 1 || (int)$part[5] > 65535))) {
                throw LeafdException::badSetting($name, $url,
                    'base URLs like http://10.0.0.1:8080 or https://leafd.example, or http+srv://NAME');
            }
            $found[] = rtrim($url, '/');
        }
        return array_values(array_unique($found));
    }

    private static function file(array $given, string $name): ?string
    {
        $path = $given[$name] ?? null;
        if ($path !== null && (!is_string($path) || str_contains($path, "\0") || !is_file($path) ||
            !is_readable($path))) {
            throw LeafdException::badSetting($name, $path, 'a file that can be read');
        }
        return $path;
    }

    private function checkOwnCertificate(?string $certificate, ?string $key): void
    {
        $this->certFile = $certificate;
        $this->keyFile = $key;
        if ($certificate === null && $key === null) {
            return;
        }
        $text = $certificate === null ? '' : (string)file_get_contents($certificate);
        $good = $key !== null && str_contains($text, '-----BEGIN CERTIFICATE-----') &&
            str_contains((string)file_get_contents($key), 'PRIVATE KEY-----');
        if (!$good) {
            throw LeafdException::badSetting('cert_file', $certificate,
                'a certificate in PEM, whose key is in key_file=' . ($key ?? ''));
        }
    }

    private function setToken(mixed $token, mixed $file): void
    {
        if ($token !== null && (!is_string($token) || !self::isToken($token))) {
            throw new LeafdException('bad_setting', 'token=...: it must be ' . self::TOKEN_RULE);
        }
        if ($file !== null && $token !== null) {
            throw LeafdException::badSetting('token_file', $file, 'given without token');
        }
        $this->token = $token;
        $this->tokenFile = $file === null ? null : (string)$file;
        $this->lookedNs = hrtime(true);
        if ($file !== null && !$this->readToken()) {
            throw LeafdException::badSetting('token_file', $file, 'a file with ' . self::TOKEN_RULE);
        }
    }

    private static function isToken(string $text): bool
    {
        return preg_match('/\A[\x21-\x7e]{1,1024}\z/', $text) === 1;
    }

    private function readToken(): bool
    {
        clearstatcache(true, $this->tokenFile);
        $about = is_file($this->tokenFile) ? @stat($this->tokenFile) : false;
        $seen = $about === false ? '' : "{$about['ino']} {$about['size']} {$about['mtime']}";
        // A time of whole seconds does not tell a second change within one.
        if ($about === false || ($seen === $this->seen && time() - $about['mtime'] > 2)) {
            return $about !== false;
        }
        $text = trim((string)@file_get_contents($this->tokenFile));
        if (!self::isToken($text)) {
            return false;
        }
        $this->token = $text;
        $this->seen = $seen;
        return true;
    }
}

<?php
declare(strict_types=1);

namespace Leafd;

/** Where ranges lie: in the process, or in memory that all processes of a web server share. */
interface Shelf
{
    /** Null: there is none. */
    public function get(string $name): mixed;

    public function put(string $name, mixed $value): void;

    /** True for one caller alone, of all that have seen $old there. Makes nothing that is not there. */
    public function change(string $name, int $old, int $new): bool;

    /** True for the caller that took it away. */
    public function drop(string $name): bool;

    /** True for one caller alone, until it drops the name, or after a while. */
    public function lock(string $name): bool;

    /** Does another process share it? */
    public function isShared(): bool;
}

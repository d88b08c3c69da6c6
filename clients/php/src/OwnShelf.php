<?php
declare(strict_types=1);

namespace Leafd;

/** In this process; a forked child begins with nothing. */
final class OwnShelf implements Shelf
{
    private array $all = [];
    private int $process = 0;

    public function get(string $name): mixed
    {
        if ($this->process !== getmypid()) {
            $this->process = getmypid();
            $this->all = [];
        }
        return $this->all[$name] ?? null;
    }

    public function put(string $name, mixed $value): void
    {
        $this->get($name);
        $this->all[$name] = $value;
    }

    public function change(string $name, int $old, int $new): bool
    {
        if (($this->all[$name] ?? null) !== $old) { // of this process, as $old is from get()
            return false;
        }
        $this->all[$name] = $new;
        return true;
    }

    public function drop(string $name): bool
    {
        $there = $this->get($name) !== null;
        unset($this->all[$name]);
        return $there;
    }

    public function lock(string $name): bool
    {
        return true;
    }

    public function isShared(): bool
    {
        return false;
    }
}

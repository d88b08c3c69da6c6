<?php
// For programs without Composer: require this file.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Leafd\\')) {
        $file = __DIR__ . '/src/' . substr($class, 6) . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});

<?php
declare(strict_types=1);

namespace Leafd;

/** Why a call failed. getCode() is a text: the server's ("unknown_tag"), or one of docs/clients.md. */
final class LeafdException extends \RuntimeException
{
    private const RETRYABLE = ['unreachable', 'window_over', 'fenced', 'layout_unknown', 'quota',
        'no_worker_id', 'paused', 'too_slow'];

    /** It would make sense to come again. */
    public readonly bool $retryable;

    /**
     * $status: HTTP's; 0: no server answered. $key: of strict ids and texts, with which the same ids
     * can be asked for again, for a day.
     */
    public function __construct(string $code, string $message, public readonly int $status = 0,
        public ?string $key = null)
    {
        // What a server may have put into it, and no log should get.
        parent::__construct(preg_replace('/\p{Cc}/u', '?', $message) ??
            preg_replace('/[^ -~]/', '?', $message));
        $this->code = $code;
        $this->retryable = $status === 503 || in_array($code, self::RETRYABLE, true);
    }

    /** @internal Whether another node would refuse it as well. */
    public function isFinal(): bool
    {
        return $this->status > 0 && $this->code !== 'bad_answer';
    }

    /** A setting or an argument that breaks its rule. */
    public static function badSetting(string $name, mixed $value, string $rule): self
    {
        $shown = is_scalar($value) ? substr(var_export($value, true), 0, 200) : get_debug_type($value);
        return new self('bad_setting', "$name=$shown: it must be $rule");
    }
}

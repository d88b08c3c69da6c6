<?php
declare(strict_types=1);

namespace Leafd;

/** The last ranges that came to a source, so that none comes again. */
final class Given
{
    private const RANGES_MAX = 64;
    public const TEXT = "t\0"; // before a text in the place of a number, which no text is then compared as

    /**
     * @internal Why an answer is not taken: ids of it are among these ranges, which were asked for without this
     * key, as those of an answer that a cache or a proxy gives again. null: it is taken.
     * @param list<array{?int, ?string, int|string, int|string}> $given generation, key, first and last; an answer
     * that is taken is put behind them
     * @param list<array{int, int}> $ranges first and last of those of the answer, or texts behind TEXT
     */
    public static function again(array &$given, Answer $answer, array $ranges, ?string $key): ?string
    {
        foreach ($ranges as [$first, $last]) {
            foreach ($given as [$generation, $by, $from, $to]) {
                if ($generation === $answer->generation && ($key === null || $key !== $by) &&
                    $first <= $to && $last >= $from) {
                    return 'its answer has ids that came before: ' . str_replace(self::TEXT, '', (string)$first);
                }
            }
        }
        foreach ($ranges as [$first, $last]) {
            $given[] = [$answer->generation, $key, $first, $last];
        }
        $given = array_slice($given, -self::RANGES_MAX);
        return null;
    }
}

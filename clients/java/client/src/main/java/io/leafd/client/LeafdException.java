package io.leafd.client;

/**
 * Why no id could be given.
 *
 * <p>{@link #code} is the server's, such as {@code unknown_tag}, or one of the library's:
 * {@code bad_setting}, {@code unreachable}, {@code untrusted}, {@code other_cluster}, {@code bad_answer},
 * {@code window_over}, {@code fenced}, {@code layout_unknown}, {@code overloaded} (too many calls wait in this process),
 * {@code interrupted}, {@code closed}.
 */
public final class LeafdException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What went wrong, for programs. */
    private final String code;
    /** HTTP's status. */
    private final int status;
    /** May it work later? */
    private final boolean retryable;
    /** Of a strict call. */
    private final String idempotencyKey;

    LeafdException(String code, int status, boolean retryable, String message, String key) {
        super(message);
        this.code = code;
        this.status = status;
        this.retryable = retryable;
        this.idempotencyKey = key;
    }

    static LeafdException badSetting(String message) {
        return new LeafdException("bad_setting", 0, false, message, null);
    }

    static LeafdException badAnswer(int status, String message) {
        return new LeafdException("bad_answer", status, false, message, null);
    }

    static LeafdException closed() {
        return new LeafdException("closed", 0, false, "the client was closed", null);
    }

    static LeafdException interrupted() {
        return new LeafdException("interrupted", 0, true,
                "the thread was interrupted while it waited", null);
    }

    static LeafdException overloaded(int bound) {
        return new LeafdException("overloaded", 0, true,
                bound + " calls wait already, and no more may", null);
    }

    /** The same with this thread's stack, for one of those who wait for the same thing. */
    LeafdException again() {
        return new LeafdException(code, status, retryable, getMessage(), idempotencyKey);
    }

    LeafdException withKey(String key) {
        return new LeafdException(code, status, retryable, getMessage(), key);
    }

    /**
     * What went wrong, for programs.
     *
     * @return lower-case words joined by underscores
     */
    public String code() {
        return code;
    }

    /**
     * The status of the server's answer.
     *
     * @return 0 where no server answered
     */
    public int status() {
        return status;
    }

    /**
     * Would it make sense to come again?
     *
     * @return true where the same call may work later
     */
    public boolean retryable() {
        return retryable;
    }

    /**
     * The key of a strict call that failed: with it the caller may come again, for a day.
     *
     * @return null where it was no strict call
     */
    public String idempotencyKey() {
        return idempotencyKey;
    }

    /** Code, status and message. */
    @Override
    public String toString() {
        return "LeafdException: " + code + (status == 0 ? "" : " (" + status + ")") + ": "
                + getMessage();
    }
}

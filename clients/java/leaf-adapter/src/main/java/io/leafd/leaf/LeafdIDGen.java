package io.leafd.leaf;

import com.sankuai.inf.leaf.IDGen;
import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.common.Status;
import io.leafd.client.LeafdClient;
import io.leafd.client.LeafdException;
import java.util.function.Consumer;

/**
 * Leaf's {@code IDGen} over a client of leafd.
 *
 * <p>It never throws, as Leaf's does not: an error is a {@link Result} with {@code EXCEPTION} and
 * Leaf's number for it, and {@link #onError} hears the reason. What Leaf fails at once is waited
 * for, up to the client's deadline. Any thread.
 */
public final class LeafdIDGen implements IDGen {
    /** Leaf's number for a key that it does not know. */
    public static final long UNKNOWN_KEY = -2;
    /** Leaf's number for all else that keeps an id from being made. */
    public static final long NO_ID = -3;

    /** Makes an id for a key. */
    private interface Maker {
        long next(String key);
    }

    private final Maker maker;
    private volatile Consumer<LeafdException> onError = error -> { };

    private LeafdIDGen(Maker maker) {
        this.maker = maker;
    }

    /**
     * Segment ids: a key is a tag.
     *
     * @param client stays the caller's
     * @return for any number of keys
     */
    public static LeafdIDGen segment(LeafdClient client) {
        return new LeafdIDGen(key -> client.segment(key).next());
    }

    /**
     * Snowflake ids: keys are not looked at.
     *
     * @param client stays the caller's
     * @return one sequence for all keys
     */
    public static LeafdIDGen snowflake(LeafdClient client) {
        return new LeafdIDGen(key -> client.snowflake().next());
    }

    /**
     * Who hears of errors, to log them say.
     *
     * @param listener is called by the thread that asked for the id
     */
    public void onError(Consumer<LeafdException> listener) {
        onError = listener;
    }

    @Override
    public Result get(String key) {
        try {
            return new Result(maker.next(key), Status.SUCCESS);
        } catch (LeafdException e) {
            onError.accept(e);
            return new Result(e.code().equals("unknown_tag") ? UNKNOWN_KEY : NO_ID,
                    Status.EXCEPTION);
        }
    }

    @Override
    public boolean init() {
        return true;
    }
}

package com.sankuai.inf.leaf.service;

import com.sankuai.inf.leaf.common.Result;
import com.sankuai.inf.leaf.exception.InitException;
import io.leafd.client.LeafdClient;
import io.leafd.client.LeafdException;
import io.leafd.client.Settings;
import io.leafd.leaf.LeafdIDGen;

/** Snowflake ids for programs that call Leaf's {@code SnowflakeService}. */
public class SnowflakeService implements AutoCloseable {
    private final LeafdClient client;
    private final boolean owned;
    private final LeafdIDGen idGen;

    /**
     * With a client of the caller's.
     *
     * @param client stays open when this is closed
     */
    public SnowflakeService(LeafdClient client) {
        this(client, false);
    }

    /**
     * With addresses alone.
     *
     * @param address base URLs of the nodes, separated by commas; Leaf has ZooKeeper's here
     * @throws InitException an address breaks its rule
     */
    public SnowflakeService(String address) throws InitException {
        this(open(address, null), true);
    }

    /**
     * As Leaf's starter makes it.
     *
     * @param address base URLs of the nodes, separated by commas; Leaf has ZooKeeper's here
     * @param port is not looked at: worker ids are lent, not counted by port
     * @throws InitException a value breaks its rule
     */
    public SnowflakeService(String address, int port) throws InitException {
        this(open(address, null), true);
    }

    private SnowflakeService(LeafdClient client, boolean owned) {
        this.client = client;
        this.owned = owned;
        idGen = LeafdIDGen.snowflake(client);
    }

    private static LeafdClient open(String addresses, String token) throws InitException {
        try {
            Settings.Builder settings = Settings.builder().endpoints(addresses.split(",", -1));
            if (token != null && !token.isEmpty()) {
                settings.token(token);
            }
            return LeafdClient.open(settings.build());
        } catch (LeafdException e) {
            throw new InitException(e.getMessage());
        }
    }

    /**
     * The next id.
     *
     * @param key is not looked at
     * @return an id with {@code SUCCESS}, or a negative number with {@code EXCEPTION}
     */
    public Result getId(String key) {
        return idGen.get(key);
    }

    /**
     * What makes the ids; errors can be listened to there.
     *
     * @return the same object each time
     */
    public LeafdIDGen getIdGen() {
        return idGen;
    }

    /** Closes the client, unless it is the caller's. */
    @Override
    public void close() {
        if (owned) {
            client.close();
        }
    }
}

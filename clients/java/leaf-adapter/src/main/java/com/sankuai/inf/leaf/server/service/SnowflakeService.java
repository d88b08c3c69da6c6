package com.sankuai.inf.leaf.server.service;

import com.sankuai.inf.leaf.server.exception.InitException;
import io.leafd.client.LeafdClient;

/** Under the name that Leaf's master has, and made by {@code leaf.properties} as there. */
public class SnowflakeService extends com.sankuai.inf.leaf.service.SnowflakeService {
    private final LeafdClient own;

    /**
     * With leafd's addresses as {@code leaf.snowflake.zk.address}, and no token.
     *
     * @throws InitException the file or a value breaks its rule
     */
    public SnowflakeService() throws InitException {
        this(LeafProperties.open("snowflake", "leaf.snowflake.zk.address", null));
    }

    private SnowflakeService(LeafdClient own) {
        super(own);
        this.own = own;
    }

    @Override
    public void close() {
        own.close();
    }
}

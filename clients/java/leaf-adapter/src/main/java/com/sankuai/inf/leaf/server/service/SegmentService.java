package com.sankuai.inf.leaf.server.service;

import com.sankuai.inf.leaf.server.exception.InitException;
import io.leafd.client.LeafdClient;

/** Under the name that Leaf's master has, and made by {@code leaf.properties} as there. */
public class SegmentService extends com.sankuai.inf.leaf.service.SegmentService {
    private final LeafdClient own;

    /**
     * With leafd's addresses as {@code leaf.jdbc.url}, and the token as {@code leaf.jdbc.password}.
     *
     * @throws InitException the file or a value breaks its rule
     */
    public SegmentService() throws InitException {
        this(LeafProperties.open("segment", "leaf.jdbc.url", "leaf.jdbc.password"));
    }

    private SegmentService(LeafdClient own) {
        super(own);
        this.own = own;
    }

    @Override
    public void close() {
        own.close();
    }
}

/** Leaf's own types over leafd: for programs that were written for Leaf. */
module io.leafd.leaf {
    requires transitive io.leafd.client;

    exports com.sankuai.inf.leaf;
    exports com.sankuai.inf.leaf.common;
    exports com.sankuai.inf.leaf.exception;
    exports com.sankuai.inf.leaf.server.exception;
    exports com.sankuai.inf.leaf.server.service;
    exports com.sankuai.inf.leaf.service;
    exports io.leafd.leaf;
}

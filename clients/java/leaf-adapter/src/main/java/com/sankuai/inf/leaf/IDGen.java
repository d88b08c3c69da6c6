package com.sankuai.inf.leaf;

import com.sankuai.inf.leaf.common.Result;

/** A generator of ids, under the name by which users of Leaf know it. */
public interface IDGen {
    /**
     * The next id of a key.
     *
     * @param key a tag; snowflake ids look at none
     * @return an id with {@code SUCCESS}, or a negative number with {@code EXCEPTION}; never null
     */
    Result get(String key);

    /**
     * Makes it ready.
     *
     * @return true
     */
    boolean init();
}

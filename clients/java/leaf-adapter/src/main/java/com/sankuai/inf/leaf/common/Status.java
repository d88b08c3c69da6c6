package com.sankuai.inf.leaf.common;

/** Whether a {@link Result} has an id. */
public enum Status {
    /** It has. */
    SUCCESS,
    /** It has not; its number says why. */
    EXCEPTION
}

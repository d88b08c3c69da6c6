package com.sankuai.inf.leaf.server.exception;

/** A service cannot be made; under the name that Leaf's master has. */
public class InitException extends com.sankuai.inf.leaf.exception.InitException {
    private static final long serialVersionUID = 1;

    /**
     * With a reason.
     *
     * @param message what is wrong
     */
    public InitException(String message) {
        super(message);
    }
}

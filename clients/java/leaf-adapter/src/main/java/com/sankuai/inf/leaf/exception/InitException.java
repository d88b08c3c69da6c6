package com.sankuai.inf.leaf.exception;

/** A service cannot be made; the message has the setting, its value and the rule. */
public class InitException extends Exception {
    private static final long serialVersionUID = 1;

    /**
     * With a reason.
     *
     * @param message why
     */
    public InitException(String message) {
        super(message);
    }
}

package com.sankuai.inf.leaf.common;

/** An id, or why there is none, under the name by which users of Leaf know it. */
public class Result {
    private long id;
    private Status status;

    /** Without an id. */
    public Result() {
    }

    /**
     * With an id.
     *
     * @param id the id, or a negative number
     * @param status which of the two it is
     */
    public Result(long id, Status status) {
        this.id = id;
        this.status = status;
    }

    /**
     * The id, or a negative number.
     *
     * @return an id only where the status is {@code SUCCESS}
     */
    public long getId() {
        return id;
    }

    /**
     * Sets the id.
     *
     * @param id the id, or a negative number
     */
    public void setId(long id) {
        this.id = id;
    }

    /**
     * Whether there is an id.
     *
     * @return null where nobody set it
     */
    public Status getStatus() {
        return status;
    }

    /**
     * Sets the status.
     *
     * @param status whether there is an id
     */
    public void setStatus(Status status) {
        this.status = status;
    }

    /** As Leaf's servers show it in their errors. */
    @Override
    public String toString() {
        return "Result{id=" + id + ", status=" + status + "}";
    }
}

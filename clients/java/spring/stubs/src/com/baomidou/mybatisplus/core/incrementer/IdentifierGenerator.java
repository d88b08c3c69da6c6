package com.baomidou.mybatisplus.core.incrementer;

/** Stub of MyBatis-Plus 3.5's, to compile against: not shipped. */
public interface IdentifierGenerator {
    Number nextId(Object entity);
}

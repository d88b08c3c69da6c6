package io.leafd.spring;

import com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator;
import io.leafd.client.IdSource;

/** For {@code IdType.ASSIGN_ID}: of the tag {@code leafd.mybatis-plus.tag}, else snowflake ids. */
public final class LeafdMybatisPlusGenerator implements IdentifierGenerator {
    private final IdSource ids;

    LeafdMybatisPlusGenerator(IdSource ids) {
        this.ids = ids;
    }

    @Override
    public Number nextId(Object entity) {
        return ids.next();
    }
}

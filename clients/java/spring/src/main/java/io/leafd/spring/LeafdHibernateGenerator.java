package io.leafd.spring;

import java.io.Serializable;
import java.util.Properties;
import org.hibernate.engine.spi.SharedSessionContractImplementor;
import org.hibernate.id.Configurable;
import org.hibernate.id.IdentifierGenerator;
import org.hibernate.service.ServiceRegistry;
import org.hibernate.type.Type;

/** Ids of entities: of the parameter {@code tag}, else snowflake ids. Hibernate makes it itself. */
public final class LeafdHibernateGenerator implements IdentifierGenerator, Configurable {
    private String tag;

    /** For Hibernate. */
    public LeafdHibernateGenerator() {
    }

    @Override
    public void configure(Type type, Properties params, ServiceRegistry services) {
        tag = params.getProperty("tag");
    }

    @Override
    public Serializable generate(SharedSessionContractImplementor session, Object object) {
        return Ids.next(tag);
    }
}

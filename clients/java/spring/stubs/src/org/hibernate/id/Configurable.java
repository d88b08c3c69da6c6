package org.hibernate.id;

import java.util.Properties;
import org.hibernate.service.ServiceRegistry;
import org.hibernate.type.Type;

/** Stub of Hibernate 5.2's and 6's, to compile against: not shipped. */
public interface Configurable {
    void configure(Type type, Properties params, ServiceRegistry services);
}

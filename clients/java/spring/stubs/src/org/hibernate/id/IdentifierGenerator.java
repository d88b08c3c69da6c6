package org.hibernate.id;

import org.hibernate.engine.spi.SharedSessionContractImplementor;

/**
 * Stub of Hibernate 6's, to compile against: not shipped. Hibernate 5.2's returns Serializable; a class
 * that does so here has both methods.
 */
public interface IdentifierGenerator {
    Object generate(SharedSessionContractImplementor session, Object object);
}

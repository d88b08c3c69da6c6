package org.hibernate.type;

/** Stub of Hibernate 5.2's and 6's, to compile against: not shipped. */
public interface Type {
}

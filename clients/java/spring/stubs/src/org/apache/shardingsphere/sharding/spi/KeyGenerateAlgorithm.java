package org.apache.shardingsphere.sharding.spi;

import java.util.Properties;

/** Stub of ShardingSphere 5.2's with what it inherits there, to compile against: not shipped. */
public interface KeyGenerateAlgorithm {
    Comparable<?> generateKey();

    String getType();

    Properties getProps();

    void init(Properties props);
}

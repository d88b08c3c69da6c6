package io.leafd.spring;

import java.util.Properties;
import org.apache.shardingsphere.sharding.spi.KeyGenerateAlgorithm;

/** The type {@code LEAFD} of key generators: of the property {@code tag}, else snowflake ids. */
public final class LeafdKeyGenerateAlgorithm implements KeyGenerateAlgorithm {
    private Properties props = new Properties();

    /** For ShardingSphere. */
    public LeafdKeyGenerateAlgorithm() {
    }

    @Override
    public void init(Properties given) {
        props = given;
    }

    @Override
    public Properties getProps() {
        return props;
    }

    @Override
    public Comparable<?> generateKey() {
        return Ids.next(props.getProperty("tag"));
    }

    @Override
    public String getType() {
        return "LEAFD";
    }
}

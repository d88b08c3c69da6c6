package com.sankuai.inf.leaf.plugin;

import com.sankuai.inf.leaf.service.SegmentService;
import com.sankuai.inf.leaf.service.SnowflakeService;
import io.leafd.client.LeafdClient;
import org.springframework.context.annotation.Bean;
import org.springframework.stereotype.Component;

/**
 * Leaf's services under the names of its starter, over the client of leafd that is a bean: addresses
 * and token are {@code leafd.endpoints} and {@code leafd.token}; what is set of {@code leaf.} is not
 * looked at. It needs leafd-leaf-adapter.jar.
 */
@Component
public class LeafSpringBootStarterAutoConfigure {
    /** For Spring. */
    public LeafSpringBootStarterAutoConfigure() {
    }

    /**
     * Segment ids.
     *
     * @param client the bean
     * @return a key is a tag
     */
    @Bean
    public SegmentService initLeafSegmentStarter(LeafdClient client) {
        return new SegmentService(client);
    }

    /**
     * Snowflake ids.
     *
     * @param client the bean
     * @return keys are not looked at
     */
    @Bean
    public SnowflakeService initLeafSnowflakeStarter(LeafdClient client) {
        return new SnowflakeService(client);
    }
}

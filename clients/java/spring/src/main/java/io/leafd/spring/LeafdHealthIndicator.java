package io.leafd.spring;

import io.leafd.client.LeafdClient;
import java.util.Map;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;

/** Down while a tag gets no ids; it sends no request. Ids that are held go on meanwhile. */
public final class LeafdHealthIndicator implements HealthIndicator {
    private final LeafdClient client;
    private final FailingTags failing;

    LeafdHealthIndicator(LeafdClient client, FailingTags failing) {
        this.client = client;
        this.failing = failing;
    }

    @Override
    public Health health() {
        Map<String, String> codes = failing.codes();
        Health.Builder health = codes.isEmpty() ? Health.up() : Health.down();
        return health.withDetail("failing", codes)
                .withDetail("ids_left", client.stats().idsLeft()).build();
    }
}

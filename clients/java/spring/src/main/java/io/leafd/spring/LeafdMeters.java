package io.leafd.spring;

import io.leafd.client.LeafdClient;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.binder.MeterBinder;

/** The client's counters as {@code leafd.client.requests} and so on, and the ids that it holds. */
public final class LeafdMeters implements MeterBinder {
    private final LeafdClient client;

    LeafdMeters(LeafdClient client) {
        this.client = client;
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        for (String name : client.stats().toMap().keySet()) {
            FunctionCounter.builder("leafd.client." + name.replace('_', '.'), client,
                    one -> one.stats().get(name)).register(registry);
        }
        Gauge.builder("leafd.client.ids.left", client, one -> one.stats().idsLeft().values()
                .stream().mapToLong(Long::longValue).sum()).register(registry);
    }
}

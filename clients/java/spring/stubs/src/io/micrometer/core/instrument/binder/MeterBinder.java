package io.micrometer.core.instrument.binder;

import io.micrometer.core.instrument.MeterRegistry;

/** Stub of Micrometer 1.9's, to compile against: not shipped. */
public interface MeterBinder {
    void bindTo(MeterRegistry registry);
}

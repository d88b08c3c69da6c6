package io.micrometer.core.instrument;

import java.util.Map;
import java.util.TreeMap;
import java.util.function.DoubleSupplier;

/** Stub of Micrometer 1.9's, to compile against: not shipped. */
public abstract class MeterRegistry {
    public final Map<String, DoubleSupplier> meters = new TreeMap<>();
}

package io.micrometer.core.instrument;

import java.util.function.ToDoubleFunction;

/** Stub of Micrometer 1.9's, to compile against: not shipped. */
public interface FunctionCounter {
    static <T> Builder<T> builder(String name, T of, ToDoubleFunction<T> value) {
        return new Builder<>(name, of, value);
    }

    /** Of the same. */
    class Builder<T> {
        private final String name;
        private final T of;
        private final ToDoubleFunction<T> value;

        Builder(String name, T of, ToDoubleFunction<T> value) {
            this.name = name;
            this.of = of;
            this.value = value;
        }

        public Builder<T> description(String text) {
            return this;
        }

        public FunctionCounter register(MeterRegistry registry) {
            registry.meters.put(name, () -> value.applyAsDouble(of));
            return new FunctionCounter() { };
        }
    }
}

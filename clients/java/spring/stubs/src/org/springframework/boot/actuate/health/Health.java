package org.springframework.boot.actuate.health;

import java.util.LinkedHashMap;
import java.util.Map;

/** Stub of Spring Boot Actuator 2.7's and 3's, to compile against: not shipped. */
public final class Health {
    private final boolean isUp;
    private final Map<String, Object> details;

    private Health(boolean isUp, Map<String, Object> details) {
        this.isUp = isUp;
        this.details = details;
    }

    public static Builder up() {
        return new Builder(true);
    }

    public static Builder down() {
        return new Builder(false);
    }

    public Map<String, Object> getDetails() {
        return details;
    }

    @Override
    public String toString() {
        return (isUp ? "UP " : "DOWN ") + details;
    }

    /** Of the same. */
    public static class Builder {
        private final boolean isUp;
        private final Map<String, Object> details = new LinkedHashMap<>();

        Builder(boolean isUp) {
            this.isUp = isUp;
        }

        public Builder withDetail(String key, Object value) {
            details.put(key, value);
            return this;
        }

        public Health build() {
            return new Health(isUp, details);
        }
    }
}

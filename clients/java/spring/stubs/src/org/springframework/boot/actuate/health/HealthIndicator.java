package org.springframework.boot.actuate.health;

/** Stub of Spring Boot Actuator 2.7's and 3's, to compile against: not shipped. */
public interface HealthIndicator {
    Health health();
}

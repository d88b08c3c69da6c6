package io.leafd.spring;

import io.leafd.client.LeafdClient;
import io.leafd.client.Settings;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.ApplicationEventPublisher;
import org.springframework.context.annotation.Bean;
import org.springframework.core.env.Environment;
import org.springframework.stereotype.Component;

/**
 * A client of leafd as a bean, and what Spring Boot and others make of it where they are there.
 *
 * <p>Settings are those of docs/clients.md: {@code leafd.deadline-ms} for {@code deadline_ms}. Each
 * event of the client is published as a {@link io.leafd.client.LeafdEvent}, on the client's thread,
 * where a listener must not wait. Failure modes: a bad setting ends the start. It is a component, and
 * no configuration, so that Spring makes no subclass of it: no method here calls another.
 */
@Component
public class LeafdAutoConfiguration {
    private static final String[] NAMES = {"endpoints", "admin_endpoints", "token", "token_file",
        "ca_file", "cert_file", "key_file", "zone", "discover", "connect_ms", "attempt_ms",
        "deadline_ms", "cover_ms", "min_count", "max_count", "window_ms", "max_age_ms"};

    /** For Spring. */
    public LeafdAutoConfiguration() {
    }

    /**
     * Which tags get no ids at present.
     *
     * @return for the client and the health indicator
     */
    @Bean
    @ConditionalOnMissingBean
    public FailingTags leafdFailingTags() {
        return new FailingTags();
    }

    /**
     * The client.
     *
     * @param environment has the settings
     * @param events gets what happens
     * @param failing is told what fails
     * @return closed with the context
     */
    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    public LeafdClient leafdClient(Environment environment, ApplicationEventPublisher events,
            FailingTags failing) {
        Settings.Builder settings = Settings.builder().onEvent(event -> {
            failing.accept(event);
            events.publishEvent(event);
        });
        for (String name : NAMES) {
            String value = value(environment, "leafd." + name.replace('_', '-'));
            if (value != null) {
                settings.set(name, value);
            }
        }
        LeafdClient client = LeafdClient.open(settings.build());
        Ids.use(client);
        return client;
    }

    /** Also of a list, as YAML has it. */
    private static String value(Environment environment, String key) {
        String value = environment.getProperty(key);
        StringBuilder list = new StringBuilder();
        for (int i = 0; value == null && environment.containsProperty(key + "[" + i + "]"); i++) {
            list.append(i == 0 ? "" : ",").append(environment.getProperty(key + "[" + i + "]"));
        }
        return list.length() > 0 ? list.toString() : value;
    }

    /** With Spring Boot Actuator. */
    @Component
    @ConditionalOnClass(name = "org.springframework.boot.actuate.health.HealthIndicator")
    static class OfHealth {
        @Bean
        LeafdHealthIndicator leafdHealthIndicator(LeafdClient client, FailingTags failing) {
            return new LeafdHealthIndicator(client, failing);
        }
    }

    /** With Micrometer. */
    @Component
    @ConditionalOnClass(name = "io.micrometer.core.instrument.binder.MeterBinder")
    static class OfMetrics {
        @Bean
        LeafdMeters leafdMeters(LeafdClient client) {
            return new LeafdMeters(client);
        }
    }

    /** With MyBatis-Plus. */
    @Component
    @ConditionalOnClass(name = "com.baomidou.mybatisplus.core.incrementer.IdentifierGenerator")
    static class OfMybatisPlus {
        @Bean
        @ConditionalOnMissingBean
        LeafdMybatisPlusGenerator leafdMybatisPlusGenerator(LeafdClient client,
                Environment environment) {
            return new LeafdMybatisPlusGenerator(
                    Ids.of(client, environment.getProperty("leafd.mybatis-plus.tag")));
        }
    }
}

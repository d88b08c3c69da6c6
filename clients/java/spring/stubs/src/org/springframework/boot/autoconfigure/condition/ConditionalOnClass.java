package org.springframework.boot.autoconfigure.condition;

import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** Stub of Spring Boot 2.7's and 3's, to compile against: not shipped. */
@Retention(RetentionPolicy.RUNTIME)
public @interface ConditionalOnClass {
    String[] name() default {};
}

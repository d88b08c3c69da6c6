package com.sankuai.inf.leaf.plugin.annotation;

import com.sankuai.inf.leaf.plugin.LeafSpringBootStarterAutoConfigure;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.context.annotation.Import;

/** Leaf's services as beans, for applications that were written for Leaf's starter. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Import(LeafSpringBootStarterAutoConfigure.class)
public @interface EnableLeafServer {
}

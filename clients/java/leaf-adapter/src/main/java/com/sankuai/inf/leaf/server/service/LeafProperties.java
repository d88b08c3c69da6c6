package com.sankuai.inf.leaf.server.service;

import com.sankuai.inf.leaf.server.exception.InitException;
import io.leafd.client.LeafdClient;
import io.leafd.client.LeafdException;
import io.leafd.client.Settings;
import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/** Leaf's file {@code leaf.properties}, at the root of the class path. */
final class LeafProperties {
    private LeafProperties() {
    }

    /** A client by the addresses of one property, and the token of another, or null. */
    static LeafdClient open(String mode, String addresses, String token) throws InitException {
        Properties properties = new Properties();
        try (InputStream in = Thread.currentThread().getContextClassLoader()
                .getResourceAsStream("leaf.properties")) {
            if (in == null) {
                throw new InitException("there is no leaf.properties on the class path");
            }
            properties.load(in);
        } catch (IOException e) {
            throw new InitException("leaf.properties cannot be read: " + e.getMessage());
        }
        if (!Boolean.parseBoolean(properties.getProperty("leaf." + mode + ".enable", "true"))) {
            throw new InitException("leaf." + mode + ".enable=false in leaf.properties; Leaf would"
                    + " give 0 for each id, and this gives none");
        }
        String urls = properties.getProperty(addresses);
        if (urls == null) {
            throw new InitException(addresses + " is missing in leaf.properties: it has the base"
                    + " URLs of leafd's nodes");
        }
        try {
            Settings.Builder settings = Settings.builder().endpoints(urls.split(",", -1));
            String secret = token == null ? "" : properties.getProperty(token, "");
            return LeafdClient.open((secret.isEmpty() ? settings : settings.token(secret)).build());
        } catch (LeafdException e) {
            throw new InitException(addresses + " in leaf.properties: " + e.getMessage());
        }
    }
}

package io.leafd.client.net;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/** What a node answered to {@code GET /api/nodes}: the cluster's nodes as it sees them. Immutable. */
final class Listing {
    /** Also of an endpoint that no listing has. */
    static final int LAST_TIER = 3;
    private static final int MOST_WEIGHT = 1000;
    private static final Pattern AT =
            Pattern.compile("(\\[[0-9A-Fa-f:.]{2,45}\\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}");

    /** One node. Immutable. */
    static final class Node {
        final long id;
        final Address address;
        private final Object zone;
        private final int weight;
        private final boolean ready;
        private final boolean snowflake;

        private Node(long id, Address address, Map<?, ?> row) {
            this.id = id;
            this.address = address;
            zone = row.get("zone");
            weight = (int) (long) (Long) row.get("weight");
            ready = "ready".equals(row.get("state"));
            snowflake = Boolean.TRUE.equals(row.get("snowflake"));
        }

        /** 1: of the zone, or of any where it is null; 2: of another; 3: only when all else failed. */
        int tier(String own, boolean forSnowflakes) {
            if (!ready || weight == 0 || (forSnowflakes && !snowflake)) {
                return LAST_TIER;
            }
            return own == null || own.equals(zone) ? 1 : 2;
        }

        /** In the draw of one of its tier. */
        int weight() {
            return weight;
        }

        /** The number and the address. */
        String key() {
            return id + " " + address;
        }
    }

    /** The number of the node that gave it. */
    final long self;
    /** Of the cluster, or null. */
    final String uid;
    /** By their numbers. */
    final Map<Long, Node> nodes = new LinkedHashMap<>();

    private Listing(long self, String uid) {
        this.self = self;
        this.uid = uid;
    }

    private static boolean isWhole(Object value, long least, long most) {
        return value instanceof Long && (Long) value >= least && (Long) value <= most;
    }

    /**
     * What a node answered; null: that is no listing. Rows that cannot be asked are left out.
     *
     * @param tls as of the node that gave it
     */
    static Listing of(Response response, boolean tls) {
        Map<String, Object> all = response.status() == 200 ? Json.object(response.text()) : null;
        Object list = all == null ? null : all.get("nodes");
        if (!(list instanceof List) || !isWhole(all.get("self"), 1, Long.MAX_VALUE)) {
            return null;
        }
        Listing listing = new Listing((Long) all.get("self"),
                all.get("uid") instanceof String ? (String) all.get("uid") : null);
        for (Object one : (List<?>) list) {
            Map<?, ?> row = one instanceof Map ? (Map<?, ?>) one : Map.of();
            Object at = row.get("http_address");
            if (!(at instanceof String) || !AT.matcher((String) at).matches()
                    || !isWhole(row.get("id"), 1, Long.MAX_VALUE)
                    || !isWhole(row.get("weight"), 0, MOST_WEIGHT)) {
                continue;
            }
            try {
                Address address = Address.parse((tls ? "https://" : "http://") + at);
                long id = (Long) row.get("id");
                listing.nodes.put(id, new Node(id, address, row));
            } catch (IllegalArgumentException e) {
                continue; // such as a port of 0
            }
        }
        return listing;
    }
}

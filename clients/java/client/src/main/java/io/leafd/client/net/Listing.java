package io.leafd.client.net;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a node answered to {@code GET /api/nodes}: the cluster's nodes as it sees them. Immutable. */
final class Listing {
    /** Of an address that no listing has. */
    static final int LAST_TIER = 4;
    private static final int MOST_NODES = 64;
    private static final int MOST_WEIGHT = 1000;
    private static final List<String> STATES =
            Arrays.asList("ready", "drained", "not_ready", "unreachable");

    /** One node. Immutable. */
    static final class Node {
        private final String zone;
        private final int weight;
        private final boolean ready;
        private final boolean snowflake;

        private Node(String zone, int weight, boolean ready, boolean snowflake) {
            this.zone = zone;
            this.weight = weight;
            this.ready = ready;
            this.snowflake = snowflake;
        }

        /** 1: of the zone, or of any where it is null; 2: of another; 3: only when all else failed. */
        int tier(String own, boolean forSnowflakes) {
            if (!ready || weight == 0 || (forSnowflakes && !snowflake)) {
                return 3;
            }
            return own == null || own.equals(zone) ? 1 : 2;
        }

        int weight() {
            return weight;
        }
    }

    private final Map<Address, Node> nodes = new LinkedHashMap<>();

    private Listing() {
    }

    Map<Address, Node> nodes() {
        return nodes;
    }

    /** What the text lists, its addresses with the scheme of the node that gave it; null: it is no
     * listing. A node without an address that can be asked is left out. */
    static Listing parse(String text, boolean tls) {
        Map<String, Object> all = Json.object(text);
        Object list = all == null ? null : all.get("nodes");
        if (!(list instanceof List) || ((List<?>) list).size() > MOST_NODES) {
            return null;
        }
        Listing listing = new Listing();
        for (Object one : (List<?>) list) {
            Map<?, ?> row = one instanceof Map ? (Map<?, ?>) one : Map.of();
            Object zone = row.get("zone");
            Object weight = row.get("weight");
            Object snowflake = row.get("snowflake");
            if (!(zone == null || zone instanceof String) || !(weight instanceof Long)
                    || (Long) weight < 0 || (Long) weight > MOST_WEIGHT
                    || !STATES.contains(row.get("state")) || !(snowflake instanceof Boolean)) {
                return null;
            }
            try {
                listing.nodes.put(
                        Address.parse((tls ? "https://" : "http://") + row.get("http_address")),
                        new Node((String) zone, (int) (long) (Long) weight,
                                row.get("state").equals("ready"), (Boolean) snowflake));
            } catch (IllegalArgumentException e) {
                continue; // this node has none
            }
        }
        return listing;
    }
}

/** Client library of leafd: unique 64-bit ids. Begin with {@link io.leafd.client.LeafdClient}. */
module io.leafd.client {
    requires java.naming; // for SRV records

    exports io.leafd.client;
}

package io.leafd.client.net;

import java.util.ArrayList;
import java.util.Hashtable;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import javax.naming.Context;
import javax.naming.NamingException;
import javax.naming.directory.Attribute;
import javax.naming.directory.InitialDirContext;

/**
 * Looks up SRV records by the JDK's own provider for DNS, module jdk.naming.dns, which asks the
 * machine's name servers. Failure mode: whatever goes wrong, there is no record. It blocks. Any
 * thread.
 */
final class Services {
    private static final Pattern HOST =
            Pattern.compile("[A-Za-z0-9_-]{1,63}(\\.[A-Za-z0-9_-]{1,63})*");
    private static final int MAX_RECORDS = 64;

    private Services() {
    }

    /** The hosts and ports of the record; priorities and weights are not used. */
    static List<Address> of(Address service) {
        Hashtable<String, String> settings = new Hashtable<>();
        settings.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.dns.DnsContextFactory");
        List<Address> found = new ArrayList<>();
        try {
            InitialDirContext context = new InitialDirContext(settings);
            try {
                Attribute records = context.getAttributes("dns:/" + service.host(),
                        new String[] {"SRV"}).get("SRV");
                for (int i = 0; records != null && i < records.size(); i++) {
                    add(service, String.valueOf(records.get(i)), found);
                }
            } finally {
                context.close();
            }
        } catch (NamingException | RuntimeException e) {
            return found; // what was known stays
        }
        return found;
    }

    /** A record is "PRIORITY WEIGHT PORT HOST.". */
    private static void add(Address service, String record, List<Address> found) {
        String[] words = record.split(" ");
        String host = words.length != 4 ? "" : words[3].replaceAll("\\.$", "")
                .toLowerCase(Locale.ROOT);
        if (host.length() <= 253 && HOST.matcher(host).matches() && words[2].matches("[0-9]{1,5}")) {
            int port = Integer.parseInt(words[2]);
            if (port >= 1 && port <= 65535 && found.size() < MAX_RECORDS) {
                found.add(service.node(host, port));
            }
        }
    }
}

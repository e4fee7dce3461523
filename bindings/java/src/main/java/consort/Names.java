package consort;

import java.nio.charset.StandardCharsets;

/** What groups, clients and daemons are called. */
final class Names {
    private static final int GROUP_MAX = 64;
    private static final int CLIENT_MAX = 23;

    private Names() {}

    static String privateName(String client, int node) {
        return "#" + client + "#n" + node;
    }

    /** As much of a text as fits in a message. */
    static String shortened(String text) {
        return text.length() <= 60 ? text : text.substring(0, 60) + "...";
    }

    /** Refuses what no group can be called. */
    static void checkGroup(String name) throws ConsortException {
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        if (bytes.length == 0 || bytes.length > GROUP_MAX) {
            throw ConsortException.invalid("a group name has " + bytes.length + " bytes; give it 1 to " + GROUP_MAX);
        }
        for (int at = 0; at < bytes.length; at++) {
            if (bytes[at] < 0x21 || bytes[at] > 0x7e || bytes[at] == '#' && at == 0) {
                throw ConsortException.invalid(String.format(
                        "a group name has byte 0x%02x at %d; use printable ASCII without space, and no # at the start",
                        bytes[at], at));
            }
        }
    }

    static boolean isClient(String name) {
        return !name.isEmpty()
                && name.length() <= CLIENT_MAX
                && name.chars().allMatch(letter -> letter >= 0x21 && letter <= 0x7e && letter != '#');
    }

    static void checkClient(String name) throws ConsortException {
        if (!isClient(name)) {
            throw ConsortException.invalid("`" + name + "` is no name for a client: use 1 to " + CLIENT_MAX
                    + " printable ASCII characters, no space, no `#`");
        }
    }

    /** Refuses what is neither a group nor a private name. */
    static void checkTarget(String name) throws ConsortException {
        if (!name.startsWith("#")) {
            checkGroup(name);
            return;
        }
        int end = name.indexOf('#', 1);
        if (end < 0 || !isClient(name.substring(1, end)) || !isNode(name.substring(end + 1))) {
            throw ConsortException.invalid("`" + name + "` names no client; write #name#nNODE");
        }
    }

    private static boolean isNode(String text) {
        if (!text.matches("n[0-9]{1,5}")) {
            return false;
        }
        int node = Integer.parseInt(text.substring(1));
        return node <= 0xffff && text.equals("n" + node);
    }
}

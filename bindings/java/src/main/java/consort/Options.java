package consort;

import java.time.Duration;

/**
 * How a client connects.
 *
 * @param name what the client is called, which no other client of the daemon may be; empty to have the daemon find one
 * @param views whether views of the network are told
 * @param positions whether the position of each message is told, and its sender's incarnation
 * @param within how long connecting may take
 * @param token what proves who the client is, where the daemon asks for it; 160 bytes at most, empty for none
 */
public record Options(String name, boolean views, boolean positions, Duration within, String token) {
    /** No name, no views, no positions, ten seconds, no token. */
    public Options() {
        this("", false, false, Duration.ofSeconds(10), "");
    }

    /** The same under a name. */
    public Options name(String name) {
        return new Options(name, views, positions, within, token);
    }

    /** The same, with views or without. */
    public Options views(boolean views) {
        return new Options(name, views, positions, within, token);
    }

    /** The same, with positions or without. */
    public Options positions(boolean positions) {
        return new Options(name, views, positions, within, token);
    }

    /** The same, with this time for connecting. */
    public Options within(Duration within) {
        return new Options(name, views, positions, within, token);
    }

    /** The same, showing this token. Whoever reads it on its way can show it, too. */
    public Options token(String token) {
        return new Options(name, views, positions, within, token);
    }
}

package consort;

import java.time.Duration;

/**
 * How a {@link Session} behaves.
 *
 * @param connect how each connection is made
 * @param unsettledMax how many bytes of sends are kept whose fate is not known; who sends more waits
 * @param reconnectWithin how long no daemon may be reached before the session ends as {@code UNREACHABLE}
 * @param producer whose sends these are: what {@link Session#producer()} of an earlier session said; empty for a producer of
 *     its own. The session goes on behind that one's last send, and stops whoever still sends under it.
 */
public record SessionOptions(Options connect, long unsettledMax, Duration reconnectWithin, String producer) {
    /** Connections as by default, 4 MiB, a minute, and a producer of its own. */
    public SessionOptions() {
        this(new Options(), 4 << 20, Duration.ofMinutes(1), "");
    }

    /** The same with connections made so. */
    public SessionOptions connect(Options connect) {
        return new SessionOptions(connect, unsettledMax, reconnectWithin, producer);
    }

    /** The same, keeping so many bytes of sends. */
    public SessionOptions unsettledMax(long unsettledMax) {
        return new SessionOptions(connect, unsettledMax, reconnectWithin, producer);
    }

    /** The same, giving up after this time without a daemon. */
    public SessionOptions reconnectWithin(Duration reconnectWithin) {
        return new SessionOptions(connect, unsettledMax, reconnectWithin, producer);
    }

    /** The same, going on with this producer. */
    public SessionOptions producer(String producer) {
        return new SessionOptions(connect, unsettledMax, reconnectWithin, producer);
    }

    /** Refuses what cannot be. */
    void check() throws ConsortException {
        if (unsettledMax < 0) {
            throw ConsortException.invalid("unsettledMax is " + unsettledMax + "; give a number of bytes");
        }
        if (reconnectWithin == null || reconnectWithin.isNegative()) {
            throw ConsortException.invalid("reconnectWithin is " + reconnectWithin + "; give a time");
        }
        if (!producer.isEmpty() && !producer.matches("[0-9a-fA-F]{32}")) {
            throw ConsortException.invalid("`" + Names.shortened(producer)
                    + "` is no producer; give what another session says, 32 digits of 0-9 and a-f");
        }
        connect.check();
    }
}

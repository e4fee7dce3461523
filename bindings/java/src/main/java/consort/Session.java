package consort;

import consort.ConsortException.Kind;
import consort.Event.DaemonId;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;

/**
 * A session over several daemons, for any number of threads: when its daemon is lost it goes on at the next.
 *
 * <pre>{@code
 * List<String> daemons = List.of("10.0.0.1:4840", "10.0.0.2:4840", "10.0.0.3:4840");
 * try (Session session = Session.connect(daemons, new SessionOptions())) {
 *     session.read(List.of("orders"), ReadFrom.START);
 *     long send = session.send(Service.AGREED, List.of("orders"), "one dozen".getBytes(UTF_8));
 *     System.out.println(session.outcome(send).get());
 *     while (true) {
 *         if (session.receive() instanceof SessionEvent.Read read) {
 *             System.out.println(new String(read.message().payload(), UTF_8) + " " + session.bookmark());
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p><em>Sends</em> have exactly one fate each: one whose fate is not known when a connection is lost is asked about, not
 * repeated. <em>Groups</em> are joined again. A <em>reading</em> goes on where it was: each message once, in order; what
 * cannot be told is told as {@link SessionEvent.Gap} or {@link SessionEvent.Parted}.
 *
 * <p>It needs a policy that says which part of a parted network goes on: {@code primary = "majority"}, or {@code protocol =
 * "paxos"}. In another part sends wait.
 *
 * <p>Events, fates among them, wait to be received by {@link #receive()}, or by whoever subscribes to {@link #events()}; not
 * by both. Where 64 MiB of them wait nothing more is read, and calls that would wait fail as {@code UNREAD}.
 */
public final class Session implements AutoCloseable {
    private static final Duration CLOSE = Duration.ofSeconds(10);
    private static final int GROUPS_MAX = 100;
    private static final int TARGETS_MAX = 1000;

    private final Roaming roaming;

    private Session(Roaming roaming) {
        this.roaming = roaming;
    }

    /**
     * Connects to the first of these daemons that can be reached.
     *
     * @param daemons their addresses, as for {@link Client#connect}
     * @param options how
     * @throws ConsortException {@code INVALID}; {@code UNREACHABLE} if none can be for as long as is allowed
     */
    public static Session connect(List<String> daemons, SessionOptions options)
            throws ConsortException, InterruptedException {
        if (daemons.isEmpty()) {
            throw ConsortException.invalid("no daemon is named; give the address of at least one");
        }
        for (String daemon : daemons) {
            options.connect().check(daemon);
        }
        options.check();
        Roaming roaming = new Roaming(List.copyOf(daemons), options);
        try {
            roaming.awaitDaemon();
        } catch (InterruptedException interrupted) {
            roaming.stop();
            throw interrupted;
        }
        return new Session(roaming);
    }

    /**
     * Whose sends these are, as text. Store it, with the payloads of sends without a fate, for a session that goes on later:
     * {@link SessionOptions#producer}. Who knows it may send under it.
     */
    public String producer() {
        return roaming.producer();
    }

    /**
     * How far the reading has come: behind the event that was received last. Store it as text; with it a reading goes on
     * later, at any daemon. {@code null} before any began.
     */
    public Bookmark bookmark() {
        return roaming.bookmark();
    }

    /** How many sends have no fate yet. */
    public int unsettled() {
        return roaming.unsettled();
    }

    /** The present daemon; {@code null} while there is no connection. */
    public DaemonId daemon() {
        Handshake.Welcome welcome = roaming.welcome();
        return welcome == null ? null : welcome.daemon();
    }

    /** What the client is called at the present daemon; likewise. */
    public String name() {
        Handshake.Welcome welcome = roaming.welcome();
        return welcome == null ? null : welcome.name();
    }

    /** The name by which others send to this client alone while it is at this daemon; likewise. */
    public String privateName() {
        Handshake.Welcome welcome = roaming.welcome();
        return welcome == null ? null : Names.privateName(welcome.name(), welcome.daemon().node());
    }

    /**
     * Joins a group, and joins it again after each loss. A group view follows, or {@link SessionEvent.JoinRefused}.
     *
     * @throws ConsortException {@code INVALID}; otherwise the session is over
     */
    public void join(String group) throws ConsortException {
        Names.checkGroup(group);
        roaming.join(group, false);
    }

    /** The same; if the group has no members yet, only members may send to it from here on. */
    public void joinClosed(String group) throws ConsortException {
        Names.checkGroup(group);
        roaming.join(group, true);
    }

    /** Leaves a group. */
    public void leave(String group) throws ConsortException {
        Names.checkGroup(group);
        roaming.leave(group);
    }

    /** Sends a message, and waits for room for as long as it takes. */
    public long send(Service service, List<String> to, byte[] payload) throws ConsortException, InterruptedException {
        return send(service, to, payload, null);
    }

    /**
     * Sends a message to groups, and to clients by their private names, once. Returns the send's number, under which its fate
     * is told: as {@link SessionEvent.Sent}, or by {@link #outcome}. Waits while too many bytes have no fate.
     *
     * @param within how long to wait; {@code null} for as long as it takes
     * @throws ConsortException {@code INVALID}, {@code TARGETS}, {@code TIMED_OUT}, {@code UNREAD}: nothing was sent;
     *     otherwise the session is over
     */
    public long send(Service service, List<String> to, byte[] payload, Duration within)
            throws ConsortException, InterruptedException {
        if (service == null) {
            throw ConsortException.invalid("no service was given");
        }
        if (to.isEmpty() || to.size() > TARGETS_MAX) {
            throw ConsortException.of(Kind.TARGETS, "a message to " + to.size() + " groups; name 1 to " + TARGETS_MAX);
        }
        byte[] frame = Client.multicastFrame(service, to, payload);
        return roaming.send(frame, to.size(), payload.length, within);
    }

    /**
     * What becomes of a send. Asked for before it is known, or before it was received, the fate comes here and is no event
     * any more; each fate is told once. Fails as {@code INVALID} where it was told or there is no such send, and where the
     * session ends first with the reason for that.
     */
    public CompletableFuture<Fate> outcome(long send) {
        return roaming.outcome(send);
    }

    /**
     * Waits until all that was sent so far has its fate.
     *
     * @param within how long to wait; {@code null} for as long as it takes
     * @throws ConsortException {@code TIMED_OUT}; {@code UNREAD}; otherwise the session is over
     */
    public void settle(Duration within) throws ConsortException, InterruptedException {
        roaming.settle(within);
    }

    /**
     * Reads by position what groups were sent, and what comes, and goes on with it at the next daemon: nothing twice, nothing
     * left out, between two {@link SessionEvent.Gap} and {@link SessionEvent.Parted}. No group is joined. Another reading
     * ends the one before.
     *
     * @throws ConsortException {@code INVALID}; {@code TARGETS} for no group, or more than 100; otherwise the session is over
     */
    public void read(List<String> groups, ReadFrom from) throws ConsortException {
        if (groups.isEmpty() || groups.size() > GROUPS_MAX) {
            throw ConsortException.of(Kind.TARGETS, "a reading of " + groups.size() + " groups; name 1 to " + GROUPS_MAX);
        }
        for (String group : groups) {
            Names.checkGroup(group);
        }
        if (from == null) {
            throw ConsortException.invalid("no place to read from was given");
        }
        roaming.read(List.copyOf(groups), from);
    }

    /**
     * The next event. Waits for as long as it takes.
     *
     * @throws ConsortException once the session is over and everything that came before was received
     */
    public SessionEvent receive() throws ConsortException, InterruptedException {
        return roaming.receive(null);
    }

    /** The next event; {@code null} if none came in time. */
    public SessionEvent receive(Duration within) throws ConsortException, InterruptedException {
        return roaming.receive(within);
    }

    /**
     * Where events come for one subscriber, each once it has asked for it. It is complete once the session was closed, and
     * fails with why it is over. {@link #bookmark()} is behind the event that the subscriber was given last.
     */
    public Flow.Publisher<SessionEvent> events() {
        return new EventPublisher<>(() -> roaming.receive(null));
    }

    /** Waits until each send has its fate, at most ten seconds, and ends the session. */
    @Override
    public void close() throws ConsortException {
        try {
            close(CLOSE);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Waits until each send has its fate, and ends the session; the daemons forget its producer. What came is received still.
     *
     * @param within how long to wait; {@code null} for as long as it takes
     * @throws ConsortException where a send has no fate: {@code TIMED_OUT}, {@code UNREAD}, or why the session was over. It
     *     ends all the same, and another session with its producer can go on.
     */
    public void close(Duration within) throws ConsortException, InterruptedException {
        roaming.close(within);
    }
}

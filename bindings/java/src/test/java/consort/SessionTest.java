package consort;

import static consort.ClientTest.LONG;
import static consort.ClientTest.check;
import static consort.ClientTest.fails;

import consort.ConsortException.Kind;
import consort.ConsortException.OpenRefusal;
import consort.ConsortException.Reason;
import consort.Event.RefusalCause;
import consort.Fate.OrderedAt;
import consort.FakeDaemon.Talk;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/** Tests of sessions against daemons that say what the test wants: run by {@link ClientTest}. */
final class SessionTest {
    private static final Duration SHORT = Duration.ofMillis(30);
    private static final SessionOptions PLAIN = new SessionOptions();

    private SessionTest() {}

    static void runAll() throws Exception {
        ClientTest.run("a session goes on at the next daemon, and repeats nothing", SessionTest::goesOn);
        ClientTest.run("a fate that is asked for is no event", SessionTest::outcomes);
        ClientTest.run("what was forgotten is said so, what was not sent is sent", SessionTest::forgotten);
        ClientTest.run("a refused send has its fate, and those behind it are sent again", SessionTest::refused);
        ClientTest.run("what is too large for a cluster is refused here", SessionTest::tooLarge);
        ClientTest.run("a session whose producer is taken over is over", SessionTest::takenOver);
        ClientTest.run("a producer that cannot be opened ends the session, unless its daemon leaves", SessionTest::notOpened);
        ClientTest.run("a session goes on with the producer of another", SessionTest::resumes);
        ClientTest.run("sends wait for room and for credit", SessionTest::roomAndCredit);
        ClientTest.run("groups are joined again, and refusals told", SessionTest::groups);
        ClientTest.run("a daemon that leaves refuses, and the next is asked", SessionTest::leaving);
        ClientTest.run("daemons take turns, and rounds take longer", SessionTest::turns);
        ClientTest.run("a session gives up in the end, and says why", SessionTest::givesUp);
        ClientTest.run("options and arguments that cannot be are refused", SessionTest::badInput);
        ClientTest.run("a session that is closed settles, and is received still", SessionTest::closes);
        ClientTest.run("a session is closed whatever it waits for", SessionTest::closesAtOnce);
        SessionReadingTest.runAll();
        SessionGapTest.runAll();
    }

    static Session connect(SessionOptions options, FakeDaemon... daemons) throws Exception {
        return Session.connect(Arrays.stream(daemons).map(FakeDaemon::address).toList(), options);
    }

    static long send(Session session, String text) throws Exception {
        return session.send(Service.AGREED, List.of("g"), text.getBytes(), LONG);
    }

    /** The next event of a kind; others are passed over. */
    static <E extends SessionEvent> E next(Session session, Class<E> kind) throws Exception {
        while (true) {
            SessionEvent event = session.receive(LONG);
            check(event != null, "no " + kind.getSimpleName() + " came");
            if (kind.isInstance(event)) {
                return kind.cast(event);
            }
        }
    }

    private static SessionEvent.Sent ordered(long send, long number) {
        return new SessionEvent.Sent(send, new Fate.Ordered(new OrderedAt(1, 100 + number)));
    }

    static ConsortException endOf(CompletableFuture<?> future) throws Exception {
        try {
            throw new AssertionError("it is " + future.get(20, TimeUnit.SECONDS));
        } catch (ExecutionException error) {
            return (ConsortException) error.getCause();
        }
    }

    private static void goesOn() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            for (String text : List.of("a", "b", "c")) {
                send(session, text);
            }
            Talk talk = first.next();
            Wire.Fields opening = talk.hears(Wire.OPEN);
            String producer = HexFormat.of().formatHex(opening.take(16));
            long own = opening.u64();
            check(producer.equals(session.producer()) && opening.u64() == 1, "its first opening");
            check(opening.u64() == 0 && opening.u8() == 0, "was told of none, and knows nothing of it");
            talk.opened(0, false);
            talk.hearsSend("a");
            talk.hearsSend("b");
            talk.hearsSend("c");
            talk.settled(1);
            check(next(session, SessionEvent.Sent.class).equals(ordered(1, 1)), "settled");
            talk.hangUp();
            talk = second.next();
            opening = talk.hears(Wire.OPEN);
            opening.take(16);
            check(opening.u64() == own && opening.u64() == 2, "its second opening");
            check(opening.u64() == 1 && opening.u8() == 1, "was told of the first, and knows it");
            talk.opened(2, false);
            talk.hearsSend("c");
            check(session.unsettled() == 1, session.unsettled());
            talk.settled(3);
            session.settle(LONG);
            List<SessionEvent> events = new ArrayList<>();
            for (int at = 0; at < 4; at++) {
                events.add(session.receive(LONG));
            }
            check(events.get(0) instanceof SessionEvent.Lost lost && lost.text().contains("the daemon closed it"), events);
            check(events.get(1).equals(new SessionEvent.Connected(second.address())), events);
            check(events.get(2).equals(ordered(2, 2)) && events.get(3).equals(ordered(3, 3)), events);
        }
    }

    private static void outcomes() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            CompletableFuture<Fate> first = session.outcome(send(session, "a"));
            send(session, "b");
            send(session, "c");
            Talk talk = daemon.opens(0);
            check(!first.isDone(), "it has none yet");
            talk.settled(3);
            check(first.get(20, TimeUnit.SECONDS).equals(new Fate.Ordered(new OrderedAt(1, 103))), first);
            session.settle(LONG);
            check(session.outcome(3).isDone(), "it is known");
            check(next(session, SessionEvent.Sent.class).send() == 2, "the only one that is an event");
            for (long gone : new long[] {0, 1, 2, 3, 4, -1}) {
                ConsortException error = endOf(session.outcome(gone));
                String text = "send " + Long.toUnsignedString(gone) + ": no fate of this send is left to tell";
                check(error.kind() == Kind.INVALID && error.getMessage().startsWith(text), error);
            }
            // What is done on a fate may wait for room: fates make it.
            CompletableFuture<Long> chained = session.outcome(send(session, "d")).thenApply(fate -> {
                try {
                    return send(session, "e");
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            talk.settled(4);
            check(chained.get(20, TimeUnit.SECONDS) == 5, "sent on a fate");
        }
    }

    private static void forgotten() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            send(session, "a");
            Talk talk = first.opens(0);
            talk.hearsSend("a");
            talk.says(new Wire.Request(Wire.NUMBERING_ENDED));
            talk.hears(Wire.OPEN);
            send(session, "b");
            talk.hangUp();
            talk = second.next();
            talk.hears(Wire.OPEN);
            talk.says(new Wire.Request(Wire.WAITS).number(3, 1));
            check(next(session, SessionEvent.Waits.class).text().contains("too many daemons have started anew"), "waits");
            talk.opened(0, true);
            check(next(session, SessionEvent.Sent.class).equals(new SessionEvent.Sent(1, new Fate.Forgotten())), "nobody knows");
            talk.hearsSend("b");
            talk.settled(1);
            check(next(session, SessionEvent.Sent.class).equals(ordered(2, 1)), "numbers begin anew");
        }
    }

    private static void refused() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            for (String text : List.of("a", "b", "c")) {
                send(session, text);
            }
            Talk talk = daemon.opens(0);
            for (String text : List.of("a", "b", "c")) {
                talk.hearsSend(text);
            }
            talk.refused(2, RefusalCause.CLOSED, "g is closed");
            SessionEvent.Sent sent = next(session, SessionEvent.Sent.class);
            check(sent.equals(new SessionEvent.Sent(2, new Fate.Refused(RefusalCause.CLOSED, "g is closed"))), sent);
            talk.refused(3, RefusalCause.MISSING, "untold as a rule");
            talk.hears(Wire.OPEN);
            talk.opened(1, false);
            check(next(session, SessionEvent.Sent.class).equals(ordered(1, 1)), "the answer says so");
            talk.hearsSend("c");
            talk.refused(4, RefusalCause.NOT_PRIMARY, "not here");
            talk.hears(Wire.OPEN);
            check(session.unsettled() == 1, "it was not ordered, and may be yet");
            talk.opened(0, true);
            talk.hearsSend("c");
            talk.settled(1);
            check(next(session, SessionEvent.Sent.class).equals(ordered(3, 1)), "sent again");
        }
    }

    private static void tooLarge() throws Exception {
        // At most four bytes of payload, and two groups.
        String small = ClientTest.WELCOME.replace("01000000" + "00040000" + "03e8", "00000004" + "00040000" + "0002");
        try (FakeDaemon daemon = new FakeDaemon(small)) {
            Session session = connect(PLAIN, daemon);
            CompletableFuture<Fate> large = session.outcome(send(session, "hello"));
            CompletableFuture<Fate> wide = session.outcome(session.send(Service.AGREED, List.of("a", "b", "c"), new byte[0]));
            CompletableFuture<Fate> good = session.outcome(send(session, "good"));
            Talk talk = daemon.opens(0);
            Fate fate = large.get(20, TimeUnit.SECONDS);
            check(fate.equals(new Fate.Refused(RefusalCause.TOO_LARGE, "a message of 5 bytes; this cluster allows 4")), fate);
            fate = wide.get(20, TimeUnit.SECONDS);
            check(fate.equals(new Fate.Refused(RefusalCause.TOO_MANY_TARGETS, "a message to 3 groups; name 1 to 2")), fate);
            talk.hearsSend("good");
            talk.settled(1);
            check(good.get(20, TimeUnit.SECONDS) instanceof Fate.Ordered, "those behind them go on");
        }
    }

    private static void takenOver() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            CompletableFuture<Fate> fate = session.outcome(send(session, "a"));
            Talk talk = daemon.opens(0);
            talk.hearsSend("a");
            talk.refused(1, RefusalCause.FENCED, "opened elsewhere");
            ConsortException end = endOf(fate);
            check(end.kind() == Kind.TAKEN_OVER && end.getMessage().contains("another session sends"), end);
            talk.hearsTheEnd();
            fails(Kind.TAKEN_OVER, () -> send(session, "b"));
            fails(Kind.TAKEN_OVER, () -> next(session, SessionEvent.Sent.class));
            fails(Kind.TAKEN_OVER, () -> session.settle(LONG));
            fails(Kind.TAKEN_OVER, session::close);
            check(!daemon.hasNext() && session.daemon() == null, "it does not come back");
            fails(Kind.CLOSED, () -> send(session, "b"));
        }
    }

    private static void notOpened(Talk talk, OpenRefusal cause, String text) throws Exception {
        talk.hears(Wire.OPEN);
        talk.says(Talk.text(new Wire.Request(Wire.NOT_OPENED).number(cause.ordinal(), 1), text));
    }

    private static void notOpened() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            CompletableFuture<Fate> fate = session.outcome(send(session, "a"));
            notOpened(first.next(), OpenRefusal.LEAVING, "the daemon is leaving");
            check(next(session, SessionEvent.Lost.class).text().endsWith("the daemon is leaving"), "another is tried");
            notOpened(second.next(), OpenRefusal.NO_POLICY, "no policy; configure one");
            ConsortException end = endOf(fate);
            check(end.kind() == Kind.NOT_OPENED && end.openRefusal() == OpenRefusal.NO_POLICY, end);
            check(end.getMessage().endsWith("no policy; configure one"), end);
        }
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            notOpened(daemon.next(), OpenRefusal.FENCED, "claimed");
            fails(Kind.TAKEN_OVER, () -> next(session, SessionEvent.Sent.class));
            session.close();
        }
    }

    private static void resumes() throws Exception {
        String producer = "00112233445566778899aabbccddeeff";
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN.producer(producer.toUpperCase()), daemon);
            check(session.producer().equals(producer), session.producer());
            Talk talk = daemon.next();
            Wire.Fields opening = talk.hears(Wire.OPEN);
            check(Arrays.equals(opening.take(16), ClientTest.unhex(producer)), "the producer");
            opening.take(16);
            check(opening.u64() == 0 && opening.u8() == 1, "known, and this session was told of no opening");
            talk.opened(7, false);
            check(next(session, SessionEvent.Resumed.class).ordered() == 7, "so many");
            send(session, "a");
            talk.hearsSend("a");
            talk.settled(8);
            check(next(session, SessionEvent.Sent.class).equals(ordered(1, 8)), "behind them");
        }
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN.producer(producer), daemon);
            Talk talk = daemon.next();
            talk.hears(Wire.OPEN);
            talk.opened(0, true);
            check(next(session, SessionEvent.Resumed.class).ordered() == null, "nobody knows of it");
        }
    }

    private static void roomAndCredit() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            // Two small ones cost 128 bytes and their payload each.
            Session session = connect(PLAIN.unsettledMax(300), daemon);
            send(session, "a");
            send(session, "b");
            fails(Kind.TIMED_OUT, () -> session.send(Service.AGREED, List.of("g"), new byte[0], SHORT));
            fails(Kind.TIMED_OUT, () -> session.settle(SHORT));
            Talk talk = daemon.opens(0);
            talk.settled(1);
            check(send(session, "c") == 3, "room came, and the late one used no number");
            talk.hearsSend("a");
            talk.hearsSend("b");
            talk.hearsSend("c");
            talk.settled(3);
            session.settle(LONG);
            long spent = 3 * 10;
            talk.progress(3, spent);
            byte[] large = new byte[300 << 10];
            check(session.send(Service.AGREED, List.of("g"), large) == 4, "a large one goes alone");
            talk.hears(Wire.MULTICAST + Service.AGREED.number);
            talk.settled(4);
            session.settle(LONG);
            check(send(session, "d") == 5, "there is room, and no credit");
            session.join("g");
            check(session.unsettled() == 1, "it waits");
            talk.progress(4, spent + 9 + large.length);
            talk.hears(Wire.JOIN);
            talk.hearsSend("d");
        }
    }

    private static void groups() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            Talk talk = first.opens(0);
            session.join("a");
            check(talk.hears(Wire.JOIN).name().equals("a"), "a");
            session.joinClosed("b");
            check(talk.hears(Wire.JOIN_CLOSED).name().equals("b"), "b");
            session.leave("a");
            check(talk.hears(Wire.LEAVE).name().equals("a"), "a again");
            talk.refused(2, RefusalCause.DENIED, "not you");
            SessionEvent.JoinRefused refused = next(session, SessionEvent.JoinRefused.class);
            check(refused.equals(new SessionEvent.JoinRefused("b", RefusalCause.DENIED, "not you")), refused);
            talk.refused(0, RefusalCause.DEMOTED, "b");
            check(next(session, Event.Refused.class).cause() == RefusalCause.DEMOTED, "it is told that it was made to leave");
            talk.disconnects(Reason.STOPPING, "the daemon stops");
            check(next(session, SessionEvent.Lost.class).text().endsWith("the daemon stops"), "why");
            talk = second.next();
            talk.hears(Wire.OPEN);
            check(talk.hears(Wire.JOIN_CLOSED).name().equals("b"), "the one that was not left");
            check(session.privateName().equals("#bob#n1") && session.name().equals("bob"), session.name());
        }
    }

    private static void leaving() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            Talk talk = first.opens(0);
            session.join("a");
            check(talk.hears(Wire.JOIN).name().equals("a"), "a");
            talk.refused(1, RefusalCause.LEAVING, "this node is leaving");
            check(next(session, SessionEvent.Lost.class).text().endsWith("this node is leaving"), "the next is tried");
            talk = second.opens(0);
            check(talk.hears(Wire.JOIN).name().equals("a"), "it joins there");
            CompletableFuture<Fate> fate = session.outcome(send(session, "a"));
            talk.hearsSend("a");
            talk.refused(2, RefusalCause.LEAVING, "this node is leaving");
            check(next(session, SessionEvent.Lost.class).text().endsWith("this node is leaving"), "the first is tried");
            talk = first.opens(0);
            talk.hears(Wire.JOIN);
            talk.hearsSend("a");
            talk.settled(1);
            check(fate.get() instanceof Fate.Ordered, "it is sent there");
        }
    }

    private static void turns() throws Exception {
        long now = 1_000_000_000_000L;
        SessionMachine machine = new SessionMachine(List.of("a", "b", "c"), PLAIN, now);
        ConsortException nobody = ConsortException.of(Kind.CANNOT_CONNECT, "nobody");
        for (String address : List.of("a", "b", "c")) {
            check(machine.address().equals(address) && machine.nextAttempt() == now, "all at once");
            machine.failed(nobody, now);
        }
        long wait = machine.nextAttempt() - now;
        check(machine.address().equals("a") && wait == 40_000_000, "a round later " + wait);
        for (int rounds = 0; rounds < 3 * 10; rounds++) {
            machine.failed(nobody, now);
        }
        check(machine.nextAttempt() - now == 1_000_000_000, "a second at most");
        machine.connected(new Link(new Handshake.Welcome(new Event.DaemonId(1, 1), "x", 9, 9, 9)));
        machine.onOpened(0, new OrderedAt(1, 1), false);
        machine.lost(nobody, now);
        check(machine.address().equals("b") && machine.nextAttempt() == now, "at once where the last one was of use");
        machine.connected(new Link(new Handshake.Welcome(new Event.DaemonId(1, 1), "x", 9, 9, 9)));
        machine.lost(nobody, now);
        check(machine.address().equals("c") && machine.nextAttempt() - now == 20_000_000, "not where it was of none");
        machine.failed(nobody, now + Duration.ofMinutes(1).toNanos() - 1);
        fails(Kind.UNREACHABLE, () -> machine.failed(nobody, now + Duration.ofMinutes(1).toNanos()));
    }

    private static void givesUp() throws Exception {
        SessionOptions soon = PLAIN.reconnectWithin(Duration.ofMillis(300));
        try {
            Session.connect(List.of("/nonexistent/a", "/nonexistent/b"), soon);
            throw new AssertionError("it is connected");
        } catch (ConsortException error) {
            check(error.kind() == Kind.UNREACHABLE, error);
            check(error.getMessage().startsWith("no daemon could be reached within 0.3s: cannot connect to /nonexistent/"), error);
        }
        FakeDaemon daemon = new FakeDaemon();
        Session session = connect(soon, daemon);
        CompletableFuture<Fate> fate = session.outcome(send(session, "a"));
        Talk talk = daemon.opens(0);
        daemon.close();
        talk.hangUp();
        check(endOf(fate).kind() == Kind.UNREACHABLE, fate);
        next(session, SessionEvent.Lost.class);
        fails(Kind.UNREACHABLE, () -> session.receive(LONG));
        fails(Kind.UNREACHABLE, () -> session.join("g"));
    }

    private static void badInput() throws Exception {
        List<String> nobody = List.of("/nonexistent/a");
        fails(Kind.INVALID, () -> Session.connect(List.of(), PLAIN));
        for (String address : List.of("", "nowhere", "host:70000")) {
            fails(Kind.INVALID, () -> Session.connect(List.of("/nonexistent/a", address), PLAIN));
        }
        for (String producer : List.of("0", "0".repeat(31), "g".repeat(32), "\u00e9".repeat(32), "0".repeat(33))) {
            fails(Kind.INVALID, () -> Session.connect(nobody, PLAIN.producer(producer)));
        }
        List<SessionOptions> wrong = List.of(
                PLAIN.unsettledMax(-1), PLAIN.reconnectWithin(null), PLAIN.reconnectWithin(Duration.ofMillis(-1)),
                PLAIN.connect(new Options().name("two words")), PLAIN.connect(new Options().hostTimeout(SHORT)),
                PLAIN.connect(new Options().daemonTimeout(SHORT)), PLAIN.connect(new Options().within(null)));
        for (SessionOptions options : wrong) {
            fails(Kind.INVALID, () -> Session.connect(nobody, options));
        }
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN.reconnectWithin(Duration.ofSeconds(Long.MAX_VALUE)), daemon);
            fails(Kind.INVALID, () -> session.send(null, List.of("g"), new byte[0]));
            fails(Kind.INVALID, () -> session.send(Service.SAFE, List.of("two words"), new byte[0]));
            fails(Kind.TARGETS, () -> session.send(Service.SAFE, List.of(), new byte[0]));
            fails(Kind.TARGETS, () -> session.send(Service.SAFE, Collections.nCopies(1001, "g"), new byte[0]));
            fails(Kind.INVALID, () -> session.join("#g"));
            fails(Kind.INVALID, () -> session.leave(""));
            fails(Kind.INVALID, () -> session.read(List.of("g"), null));
            fails(Kind.INVALID, () -> session.read(List.of("two words"), ReadFrom.NEW));
            fails(Kind.TARGETS, () -> session.read(List.of(), ReadFrom.NEW));
            fails(Kind.TARGETS, () -> session.read(Collections.nCopies(101, "g"), ReadFrom.NEW));
            check(send(session, "a") == 1, "none of these has used a number");
            check(session.receive(Duration.ofSeconds(Long.MAX_VALUE)) instanceof SessionEvent.Connected, "the longest time");
        }
    }

    private static void closes() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            send(session, "a");
            CompletableFuture<Void> closing = CompletableFuture.runAsync(() -> {
                try {
                    session.close(LONG);
                } catch (ConsortException | InterruptedException error) {
                    throw new AssertionError(error);
                }
            });
            Talk talk = daemon.opens(0);
            talk.hearsSend("a");
            talk.settled(1);
            talk.hears(Wire.FORGET);
            talk.hears(Wire.GOODBYE);
            talk.disconnects(Reason.GOODBYE, "");
            talk.hearsTheEnd();
            closing.get(20, TimeUnit.SECONDS);
            check(next(session, SessionEvent.Sent.class).equals(ordered(1, 1)), "what came is received");
            fails(Kind.CLOSED, session::receive);
            fails(Kind.CLOSED, () -> send(session, "b"));
            session.close();
        }
    }

    private static void closesAtOnce() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            CompletableFuture<Fate> fate = session.outcome(send(session, "a"));
            Talk talk = daemon.next();
            talk.hears(Wire.OPEN);
            fails(Kind.TIMED_OUT, () -> session.close(SHORT));
            check(endOf(fate).kind() == Kind.CLOSED, "nobody waits for it any more");
            talk.hearsTheEnd();
        }
        FakeDaemon daemon = new FakeDaemon();
        Session session = connect(PLAIN, daemon);
        Talk talk = daemon.next();
        daemon.close();
        talk.hangUp();
        next(session, SessionEvent.Lost.class);
        session.close();
        fails(Kind.CLOSED, session::receive);
    }
}

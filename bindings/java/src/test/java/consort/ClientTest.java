package consort;

import consort.ConsortException.Kind;
import consort.ConsortException.Reason;
import consort.ConsortException.UnknownFate;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;

/** Tests of the client against bytes: run by {@code bindings/java/test}, which fails where one throws. */
public final class ClientTest {
    static final Duration LONG = Duration.ofSeconds(20);
    private static final Duration SHORT = Duration.ofMillis(30);

    /** The welcome of the protocol page's example: node 1, client 2, "bob", 16 MiB, 256 KiB, 1000 groups. */
    static final String WELCOME = "0000002b810002000100000000000000650000000000000002000000020002"
            + "6e3103626f62010000000004000003e8";
    private static final String GROUP_VIEW = "0000004e850167000000000000000100000000000000000064000000000000000100010"
            + "1000000010001000000000000006500000002" + "03626f62" + "000000010001000000000000006500000002" + "03626f62" + "0000";
    private static final String MESSAGE = "000000119400010000000203626f62" + "000101676869";

    private ClientTest() {}

    interface Test {
        void run() throws Exception;
    }

    public static void main(String[] none) throws Exception {
        run("a session of the protocol page, byte for byte", ClientTest::aSessionByteForByte);
        run("events of the protocol page", ClientTest::eventsOfTheProtocolPage);
        run("damaged events end the session and nothing else", ClientTest::damagedEvents);
        run("sends wait for credit, and are told their fate", ClientTest::sendsWaitForCredit);
        run("who is no daemon is told from one", ClientTest::whoIsNoDaemon);
        run("names and addresses are checked", ClientTest::namesAndAddresses);
        run("a subscriber is given what it asks for", ClientTest::aSubscriber);
        run("a closed client says so", ClientTest::aClosedClient);
        PeerTest.runAll();
        SilenceTest.runAll();
        SessionTest.runAll();
        TlsTest.runAll();
    }

    static void run(String name, Test test) throws Exception {
        try {
            test.run();
            System.out.println("ok    " + name);
        } catch (Exception | AssertionError error) {
            System.out.println("WRONG " + name);
            throw error;
        }
    }

    static void check(boolean holds, Object what) {
        if (!holds) {
            throw new AssertionError(String.valueOf(what));
        }
    }

    static void fails(Kind kind, Test test) throws Exception {
        try {
            test.run();
        } catch (ConsortException error) {
            check(error.kind() == kind, error);
            return;
        }
        throw new AssertionError("it was done, and not refused as " + kind);
    }

    /** Why this failed. It is waited for: after it, the client's reader has come to its end. */
    private static ExecutionException ends(CompletableFuture<Void> fate) throws Exception {
        try {
            fate.get(20, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            return error;
        }
        throw new AssertionError("it was ordered by nobody");
    }

    static byte[] unhex(String text) {
        return HexFormat.of().parseHex(text);
    }

    /** Plays a daemon at a socket of its own. */
    private static final class Daemon implements AutoCloseable {
        private final Path directory = Files.createTempDirectory("consort");
        private final Path path = directory.resolve("socket");
        private final ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        private final CompletableFuture<SocketChannel> client = new CompletableFuture<>();

        Daemon(String says) throws IOException {
            listener.bind(UnixDomainSocketAddress.of(path));
            Thread thread = new Thread(() -> serve(unhex(says)));
            thread.setDaemon(true);
            thread.start();
        }

        private void serve(byte[] says) {
            try {
                SocketChannel channel = listener.accept();
                channel.write(ByteBuffer.wrap(says));
                client.complete(channel);
            } catch (IOException error) {
                client.completeExceptionally(error);
            }
        }

        Client connect(Options options) throws ConsortException {
            return Client.connect(path.toString(), options);
        }

        byte[] hears(int count) throws Exception {
            ByteBuffer heard = ByteBuffer.allocate(count);
            while (heard.hasRemaining()) {
                if (client.get(20, TimeUnit.SECONDS).read(heard) < 0) {
                    throw new EOFException("only " + heard.position() + " bytes came");
                }
            }
            return heard.array();
        }

        void hangUp() throws Exception {
            client.get(20, TimeUnit.SECONDS).close();
        }

        @Override
        public void close() throws IOException {
            listener.close();
            Files.deleteIfExists(path);
            Files.deleteIfExists(directory);
        }
    }

    private static void aSessionByteForByte() throws Exception {
        try (Daemon daemon = new Daemon(WELCOME)) {
            Client bob = daemon.connect(new Options().name("bob").daemonTimeout(null));
            byte[] hello = unhex("0000001c01c04ec11e00020003626f6200000000000000000000000000000000");
            check(Arrays.equals(daemon.hears(32), hello), "hello");
            check(bob.join("g") == 1 && bob.multicast(Service.AGREED, List.of("g"), "hi".getBytes()) == 2, "numbers");
            check(Arrays.equals(daemon.hears(18), unhex("00000003020167" + "00000007140001" + "01676869")), "requests");
            check(bob.privateName().equals("#bob#n1") && bob.messageMax() == 16 << 20, bob.name());
        }
    }

    private static void eventsOfTheProtocolPage() throws Exception {
        try (Daemon daemon = new Daemon(WELCOME + GROUP_VIEW + MESSAGE)) {
            Client bob = daemon.connect(new Options());
            Event.GroupView view = (Event.GroupView) bob.receive(LONG);
            check(view.group().equals("g") && view.members().get(0).privateName().equals("#bob#n1"), view);
            check(view.primary() == Event.Primary.YES && view.cause() == Event.Cause.JOIN, view);
            Event.Message message = (Event.Message) bob.receive(LONG);
            check(message.sender().equals("#bob#n1") && message.service() == Service.AGREED, message);
            check(new String(message.payload()).equals("hi") && message.to().equals(List.of("g")), message);
            check(bob.receive(SHORT) == null, "nothing else came");
            daemon.hangUp();
            fails(Kind.CONNECTION_LOST, () -> bob.receive(LONG));
            fails(Kind.CONNECTION_LOST, () -> bob.join("g"));
        }
    }

    /** No byte of a daemon's may harm the program: whatever comes, the session ends with a reason, or goes on. */
    private static void damagedEvents() throws Exception {
        String batch = "0000001fb400010000000203626f62" + "0000000714000101676869" + "00000005140001" + "0167";
        String placed = "0000000bfc00010000000000000065" + "00000019c4000000000000000900010000000203626f62000101676869";
        byte[] whole = unhex(GROUP_VIEW + MESSAGE + batch + placed + "0000000688050002736f");
        List<Event> events = new ArrayList<>();
        ConsortException end = played(whole, events);
        check(end.kind() == Kind.DISCONNECTED && end.reason() == Reason.SLOW && events.size() == 5, events);
        Event.Message last = (Event.Message) events.get(4);
        check(last.position() == 9 && last.incarnation() == 0x65, last);
        ConsortException failed = played(unhex("00000006880b0002736f"), new ArrayList<>());
        check(failed.reason() == Reason.SPOOL_FAILED, failed);
        RandomGenerator chance = RandomGenerator.of("L64X128MixRandom");
        for (int round = 0; round < 300; round++) {
            byte[] damaged = whole.clone();
            for (int times = 0; times <= round % 4; times++) {
                damaged[chance.nextInt(damaged.length)] = (byte) chance.nextInt(256);
            }
            Kind kind = played(damaged, new ArrayList<>()).kind();
            check(kind == Kind.DISCONNECTED || kind == Kind.CONNECTION_LOST || kind == Kind.CLOSED, kind);
        }
    }

    /** What a client receives of a daemon that says this and hangs up, and why its session is over. */
    private static ConsortException played(byte[] says, List<Event> events) throws Exception {
        try (Daemon daemon = new Daemon(WELCOME + HexFormat.of().formatHex(says))) {
            Client client = daemon.connect(new Options());
            daemon.hangUp();
            while (true) {
                Event event = client.receive(LONG);
                check(event != null, "the session has an end");
                events.add(event);
            }
        } catch (ConsortException end) {
            return end;
        }
    }

    private static void sendsWaitForCredit() throws Exception {
        try (Daemon daemon = new Daemon(WELCOME)) {
            Client bob = daemon.connect(new Options().name("bob"));
            List<String> to = List.of("g");
            check(bob.multicast(Service.SAFE, to, new byte[300 << 10]) == 1, "larger than all credit, and nothing is under way");
            fails(Kind.TIMED_OUT, () -> bob.multicast(Service.SAFE, to, new byte[0], SHORT));
            fails(Kind.TIMED_OUT, () -> bob.settle(SHORT));
            CompletableFuture<Void> first = bob.ordered(1);
            check(!first.isDone() && bob.ordered(2).isCompletedExceptionally(), "there is no second");
            daemon.hangUp();
            try {
                first.get(20, TimeUnit.SECONDS);
                throw new AssertionError("nobody ordered it");
            } catch (ExecutionException error) {
                ConsortException lost = (ConsortException) error.getCause();
                check(lost.unknownFate().equals(new UnknownFate(1, 1)), lost);
                check(lost.getMessage().contains("the fate of send 1 is unknown"), lost);
            }
        }
        String progress = "00000019820000000000000001000000000000000100000000000000" + "07";
        try (Daemon daemon = new Daemon(WELCOME)) {
            Client bob = daemon.connect(new Options());
            bob.join("g");
            daemon.hears(33 + 7);
            daemon.client.get().write(ByteBuffer.wrap(unhex(progress)));
            bob.ordered(1).get(20, TimeUnit.SECONDS);
            bob.settle(SHORT);
        }
    }

    private static void whoIsNoDaemon() throws Exception {
        Options soon = new Options().within(Duration.ofMillis(300));
        String http = HexFormat.of().formatHex("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes());
        for (String says : List.of(http, "0000000187", WELCOME.replaceFirst("810002", "810003"), "000000028100")) {
            try (Daemon daemon = new Daemon(says)) {
                fails(Kind.NO_DAEMON, () -> daemon.connect(soon));
            }
        }
        try (Daemon daemon = new Daemon("")) {
            fails(Kind.TIMED_OUT, () -> daemon.connect(soon));
        }
        try (Daemon daemon = new Daemon("00000009880700057461" + "6b656e")) {
            daemon.connect(soon);
            throw new AssertionError("it was let in");
        } catch (ConsortException error) {
            check(error.kind() == Kind.NOT_WELCOME && error.reason() == Reason.NAME_TAKEN, error);
            check(error.getMessage().endsWith("taken"), error);
        }
        fails(Kind.CANNOT_CONNECT, () -> Client.connect("/nonexistent/consort", soon));
    }

    private static void namesAndAddresses() throws Exception {
        String long65 = "x".repeat(65);
        for (String name : List.of("", "#g", "a b", "t\u00e9", long65, "#bob", "#bob#1", "#bob#n01", "#bob#n65536", "##n1")) {
            fails(Kind.INVALID, () -> Names.checkTarget(name));
        }
        for (String name : List.of("g", "a#", "x".repeat(64), "#bob#n1", "#bob#n65535")) {
            Names.checkTarget(name);
        }
        for (String address : List.of("", "nowhere", ":4840", "host:http", "host:70000", "unix:", "a\0/b")) {
            fails(Kind.INVALID, () -> Client.connect(address, new Options()));
        }
        for (String address : List.of("/run/x", "unix:x", "[::1]:4840", "tcp:localhost:1")) {
            Connection.read(address);
        }
        fails(Kind.INVALID, () -> Client.connect("/run/x", new Options().name("b b")));
    }

    /** Keeps what it is given. */
    private static final class Kept implements Flow.Subscriber<Event> {
        private final List<Event> events = new ArrayList<>();
        private final CompletableFuture<Flow.Subscription> subscription = new CompletableFuture<>();
        private final CompletableFuture<Throwable> end = new CompletableFuture<>();

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription.complete(given);
        }

        @Override
        public synchronized void onNext(Event event) {
            events.add(event);
            notifyAll();
        }

        @Override
        public void onError(Throwable error) {
            end.complete(error);
        }

        @Override
        public void onComplete() {
            end.complete(null);
        }

        synchronized int await(int count) throws InterruptedException {
            long until = System.nanoTime() + LONG.toNanos();
            while (events.size() < count && System.nanoTime() < until) {
                wait(100);
            }
            return events.size();
        }
    }

    private static void aSubscriber() throws Exception {
        try (Daemon daemon = new Daemon(WELCOME + MESSAGE.repeat(3))) {
            Client bob = daemon.connect(new Options());
            Kept kept = new Kept();
            Flow.Publisher<Event> publisher = bob.events();
            publisher.subscribe(kept);
            Flow.Subscription subscription = kept.subscription.get();
            subscription.request(2);
            check(kept.await(2) == 2, kept.events);
            Thread.sleep(50);
            check(kept.await(0) == 2, "it has asked for no more");
            subscription.request(Long.MAX_VALUE);
            check(kept.await(3) == 3, kept.events);
            daemon.hangUp();
            check(((ConsortException) kept.end.get(20, TimeUnit.SECONDS)).kind() == Kind.CONNECTION_LOST, "its end");
            Kept second = new Kept();
            publisher.subscribe(second);
            check(second.end.get() instanceof IllegalStateException, "there is one");
            Kept wrong = new Kept();
            bob.events().subscribe(wrong);
            wrong.subscription.get().request(0);
            check(wrong.end.get(20, TimeUnit.SECONDS) instanceof IllegalArgumentException, "nothing was asked for");
        }
    }

    private static void aClosedClient() throws Exception {
        try (Daemon daemon = new Daemon(WELCOME + MESSAGE)) {
            Client bob = daemon.connect(new Options());
            CompletableFuture<Void> fate = bob.ordered(bob.join("g"));
            fails(Kind.TIMED_OUT, () -> bob.close(SHORT));
            ExecutionException lost = ends(fate);
            check(((ConsortException) lost.getCause()).kind() == Kind.CONNECTION_LOST, lost);
            fails(Kind.CLOSED, () -> bob.join("g"));
            fails(Kind.CLOSED, () -> bob.receive(LONG));
        }
        try (Daemon daemon = new Daemon(WELCOME)) {
            Client bob = daemon.connect(new Options());
            daemon.hears(33);
            CompletableFuture<Void> closing = CompletableFuture.runAsync(() -> {
                try {
                    bob.close(LONG);
                } catch (ConsortException | InterruptedException error) {
                    throw new AssertionError(error);
                }
            });
            check(Arrays.equals(daemon.hears(5), unhex("0000000106")), "good-bye");
            daemon.client.get().write(ByteBuffer.wrap(unhex("0000000488010000")));
            closing.get(20, TimeUnit.SECONDS);
        }
    }
}

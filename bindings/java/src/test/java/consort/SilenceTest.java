package consort;

import static consort.ClientTest.check;
import static consort.ClientTest.fails;
import static consort.ClientTest.unhex;

import consort.ConsortException.Kind;
import consort.ConsortException.UnknownFate;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Tests of daemons that fall silent: run by {@link ClientTest}. */
final class SilenceTest {
    private static final String BEAT = "0000000180";
    private static final String MALFORMED = "000000128802000e" + "6d616c666f726d65642c20736179";
    private static final Duration SECOND = Duration.ofSeconds(1);
    private static final Options IMPATIENT = new Options().name("bob").hostTimeout(SECOND).daemonTimeout(SECOND);

    private SilenceTest() {}

    static void runAll() throws Exception {
        ClientTest.run("a daemon that falls silent is given up", SilenceTest::aSilentDaemon);
        ClientTest.run("silence is counted while one reads", SilenceTest::silenceIsCounted);
        ClientTest.run("heartbeats are asked for where silence has a bound", SilenceTest::hellos);
        ClientTest.run("a daemon of an earlier release is asked for none", SilenceTest::anEarlierRelease);
        ClientTest.run("times out of range are refused by name", SilenceTest::timesOutOfRange);
    }

    /** Plays the daemon of each connection, one after the other. */
    private static final class Listener implements AutoCloseable {
        private final ServerSocketChannel listener;
        private final Path directory = Files.createTempDirectory("consort");
        private final Path socket = directory.resolve("socket");
        private final String address;
        /** What each client said first. */
        private final BlockingQueue<byte[]> hellos = new LinkedBlockingQueue<>();

        private interface Play {
            void with(SocketChannel client, byte[] hello) throws Exception;
        }

        Listener(boolean isUnix, Play play) throws IOException {
            listener = isUnix ? ServerSocketChannel.open(StandardProtocolFamily.UNIX) : ServerSocketChannel.open();
            listener.bind(isUnix ? UnixDomainSocketAddress.of(socket) : new InetSocketAddress("127.0.0.1", 0));
            address = isUnix
                    ? socket.toString()
                    : "127.0.0.1:" + ((InetSocketAddress) listener.getLocalAddress()).getPort();
            Thread thread = new Thread(() -> serve(play));
            thread.setDaemon(true);
            thread.start();
        }

        private void serve(Play play) {
            while (true) {
                try (SocketChannel client = listener.accept()) {
                    ByteBuffer heard = ByteBuffer.allocate(64);
                    client.read(heard);
                    byte[] hello = Arrays.copyOf(heard.array(), heard.position());
                    hellos.add(hello);
                    play.with(client, hello);
                } catch (Exception closed) {
                    return;
                }
            }
        }

        @Override
        public void close() throws IOException {
            listener.close();
            Files.deleteIfExists(socket);
            Files.deleteIfExists(directory);
        }
    }

    private static void say(SocketChannel client, String text) throws IOException {
        client.write(ByteBuffer.wrap(unhex(text)));
    }

    /** Lets a client in, says this, and waits until the client has left. */
    private static void letIn(SocketChannel client, String text) throws IOException {
        say(client, ClientTest.WELCOME + text);
        while (client.read(ByteBuffer.allocate(64)) > 0) {}
    }

    private static void aSilentDaemon() throws Exception {
        for (boolean isUnix : List.of(true, false)) {
            try (Listener listener = new Listener(isUnix, (client, hello) -> letIn(client, BEAT))) {
                Client bob = Client.connect(listener.address, IMPATIENT);
                bob.join("g");
                fails(Kind.CONNECTION_LOST, () -> bob.settle(ClientTest.LONG));
                ConsortException lost = endOf(bob);
                String told = "(timed out: nothing was heard of the daemon or its machine for 1s); the fate of send 1";
                check(lost.kind() == Kind.CONNECTION_LOST && lost.getMessage().contains(told), lost);
                check(lost.unknownFate().equals(new UnknownFate(1, 1)), lost);
                check(lost.getCause().getCause() instanceof SocketTimeoutException, lost.getCause());
            }
        }
    }

    private static ConsortException endOf(Client client) throws Exception {
        try {
            throw new AssertionError("it has no end, but " + client.receive(ClientTest.LONG));
        } catch (ConsortException end) {
            return end;
        }
    }

    private static void silenceIsCounted() {
        long step = SECOND.toNanos() / 8;
        Silence silence = new Silence(SECOND);
        check(silence.step() == step && silence.interval() == 250, silence.step());
        check(!silence.isOver(1_000 * step), "nobody reads");
        silence.onRead(1_000 * step);
        check(looks(silence, 1_000, step) == 7, "one more step would be beyond the bound");
        Silence paused = new Silence(SECOND);
        paused.onRead(0);
        check(!paused.isOver(100 * step) && looks(paused, 100, step) == 6, "a pause of one's own is one step");
        Silence beats = new Silence(SECOND);
        for (int round = 0; round < 20; round++) {
            beats.onRead(round * 6 * step);
            for (int look = 1; look <= 6; look++) {
                check(!beats.isOver((round * 6 + look) * step), "it was heard meanwhile");
            }
            beats.onBytes();
        }
        check(beats.onHeartbeat() && !beats.onHeartbeat(), "the first one begins the looks");
        check(!new Silence(null).onHeartbeat() && new Silence(null).interval() == 0, "nobody minds");
    }

    /** After how many looks, each a step apart, it is over. */
    private static int looks(Silence silence, long from, long step) {
        int looks = 1;
        while (!silence.isOver((from + looks) * step)) {
            looks++;
        }
        return looks;
    }

    private static void hellos() {
        String plain = "c04ec11e0002" + "%s" + "03626f62" + "00000000000000000000000000000000";
        Options bob = new Options().name("bob");
        Map.of(0L, "0000001c01" + plain.formatted("00"), 500L, "0000002001" + plain.formatted("20") + "000001f4").forEach(
                (interval, hello) -> {
                    String said = HexFormat.of().formatHex(Handshake.hello(bob, interval));
                    check(said.equals(hello), said);
                });
        String shows = HexFormat.of().formatHex(Handshake.hello(bob.token("abc"), 250));
        check(shows.equals("0000002401" + plain.formatted("a0") + "000000fa" + "03616263"), shows);
    }

    private static void anEarlierRelease() throws Exception {
        Listener.Play old = (client, hello) -> {
            if ((hello[11] & 32) == 0) {
                letIn(client, "");
            } else {
                say(client, MALFORMED);
            }
        };
        try (Listener listener = new Listener(true, old)) {
            Client.connect(listener.address, IMPATIENT);
            byte[] first = listener.hellos.poll(20, TimeUnit.SECONDS);
            byte[] second = listener.hellos.poll(20, TimeUnit.SECONDS);
            check(Arrays.equals(first, Handshake.hello(IMPATIENT, 250)), "asks");
            check(Arrays.equals(second, Handshake.hello(IMPATIENT, 0)), "does not ask");
        }
    }

    private static void timesOutOfRange() throws Exception {
        Options plain = new Options();
        Map<Options, String> bad = Map.of(
                plain.hostTimeout(Duration.ofMillis(999)), "hostTimeout is 0.999s; give a time from 1s to 6h",
                plain.hostTimeout(Duration.ofHours(6).plusNanos(1)), "hostTimeout is 6h0.000000001s; give",
                plain.hostTimeout(null), "hostTimeout is null; give",
                plain.daemonTimeout(Duration.ZERO), "daemonTimeout is 0s; give",
                plain.daemonTimeout(Duration.ofSeconds(-1)), "daemonTimeout is -1s; give",
                plain.daemonTimeout(Duration.ofSeconds(Long.MAX_VALUE)), "daemonTimeout is 2562047788015215h30m7s; give");
        for (Map.Entry<Options, String> one : bad.entrySet()) {
            for (String address : List.of("/nonexistent/socket", "127.0.0.1:1")) {
                try {
                    Client.connect(address, one.getKey());
                    throw new AssertionError(one.getKey() + " was taken");
                } catch (ConsortException error) {
                    check(error.kind() == Kind.INVALID && error.getMessage().startsWith(one.getValue()), error);
                }
            }
        }
        UnixDomainSocketAddress unix = UnixDomainSocketAddress.of("/run/x");
        InetSocketAddress tcp = InetSocketAddress.createUnresolved("x", 1);
        check(plain.silenceAt(tcp).equals(Duration.ofSeconds(2)), "over TCP");
        check(plain.silenceAt(unix).equals(Duration.ofSeconds(10)), "on this machine");
        check(plain.daemonTimeout(null).silenceAt(unix) == null, "for ever");
        check(plain.hostTimeout(Duration.ofHours(6)).silenceAt(tcp).equals(Duration.ofHours(6)), "the longest");
    }
}

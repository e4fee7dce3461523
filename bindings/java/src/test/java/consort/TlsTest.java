package consort;

import static consort.ClientTest.LONG;
import static consort.ClientTest.check;
import static consort.ClientTest.fails;
import static consort.ClientTest.unhex;

import consort.ConsortException.Kind;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLSocket;

/** Tests of TLS, with real daemons and certificates made for the purpose: run by {@link ClientTest}. */
final class TlsTest {
    private static final String HERE = "ip:127.0.0.1";
    private static final String BILLING = "dns:eu.billing";
    private static final String AUDIT = "dns:audit";
    private static Authority daemons;
    private static Authority clients;
    private static Authority others;

    private TlsTest() {}

    static void runAll() throws Exception {
        ClientTest.run("TLS that cannot be is refused", TlsTest::badInput);
        if (!Files.isExecutable(Authority.KEYTOOL)) {
            System.out.println("other tests of TLS are left out: no program " + Authority.KEYTOOL);
            return;
        }
        daemons = new Authority("daemons").signs(HERE);
        clients = new Authority("clients").signs(BILLING).signs(AUDIT);
        others = new Authority("others").signs(BILLING);
        run("who speaks no TLS is told from a daemon", TlsTest::noTls);
        run("old versions of TLS are not spoken", TlsTest::oldVersions);
        run("a daemon that falls silent over TLS is given up", TlsTest::silence);
        if (RealDaemons.program() == null) {
            System.out.println("tests of TLS with daemons are left out: CONSORT_PROGRAM does not say where `consort` is");
            return;
        }
        run("a certificate says who a client is, and what it may do", TlsTest::certificates);
        run("a token is shown over TLS", TlsTest::tokens);
        run("failed handshakes say why", TlsTest::refusals);
        run("a session goes on at the next daemon over TLS", TlsTest::goesOn);
    }

    /** The same as of {@link ClientTest}; it leaves no thread of the client's. */
    private static void run(String name, ClientTest.Test test) throws Exception {
        ClientTest.run(name, () -> {
            long before = threads();
            test.run();
            long until = System.nanoTime() + LONG.toNanos();
            while (threads() > before && System.nanoTime() < until) {
                Thread.sleep(10);
            }
            check(threads() <= before, Thread.getAllStackTraces().keySet());
        });
    }

    private static long threads() {
        List<String> own = List.of("consort-reads", "consort-writes", "consort-session");
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> own.contains(thread.getName())).count();
    }

    private static Options believing(Authority believed, Authority signer, String own) throws Exception {
        return new Options().tls(believed.believing(signer, own));
    }

    /** What daemons are configured with that ask for certificates of clients, if so. */
    private static String security(boolean asks) throws Exception {
        String text = "[security]\ncertificate = \"" + daemons.certificate(HERE) + "\"\ncertificate_key = \""
                + daemons.key(HERE) + "\"\n";
        return asks ? text + "client_authority = \"" + clients.certificate("authority") + "\"\n" : text;
    }

    /** A test's end of a connection. */
    private interface Play {
        void with(Socket client) throws IOException;
    }

    /** Plays what is at a port, for each connection; with its address. */
    private static void at(Play play, Attempt attempt) throws Exception {
        try (ServerSocket listener = new ServerSocket(0, 9, InetAddress.getLoopbackAddress())) {
            Client.start("fake-daemon", () -> {
                while (!listener.isClosed()) {
                    try (Socket client = listener.accept()) {
                        play.with(client);
                    } catch (IOException gone) {
                        // The client, or the test is over.
                    }
                }
            });
            attempt.at("127.0.0.1:" + listener.getLocalPort());
        }
    }

    private interface Attempt {
        void at(String address) throws Exception;
    }

    private static SSLSocket accepts(Socket client, SSLContext context) throws IOException {
        SSLSocket sealed = (SSLSocket) context.getSocketFactory().createSocket(client, null, true);
        sealed.setUseClientMode(false);
        return sealed;
    }

    private static ConsortException refused(String address, Options options) throws Exception {
        try (Client client = Client.connect(address, options)) {
            throw new AssertionError(client.name() + " was let in");
        } catch (ConsortException error) {
            return error;
        }
    }

    private static void refused(String address, Options options, String... says) throws Exception {
        ConsortException error = refused(address, options);
        check(error.kind() == Kind.CANNOT_CONNECT && error.getCause() instanceof SSLException, error);
        check(error.getMessage().startsWith("cannot connect to " + address + " by TLS: "), error);
        check(Arrays.stream(says).anyMatch(error.getMessage()::contains), error);
    }

    private static void badInput() throws Exception {
        Options sealed = new Options().tls(SSLContext.getDefault());
        SessionOptions session = new SessionOptions().connect(sealed);
        fails(Kind.INVALID, () -> Client.connect("/run/x", sealed));
        fails(Kind.INVALID, () -> Session.connect(List.of("127.0.0.1:1", "unix:x"), session));
        String says = refused("/run/x", sealed).getMessage();
        check(says.contains("TLS is given for `/run/x`, a Unix socket; name a host:port"), says);
        says = refused("127.0.0.1:1", new Options().tls(SSLContext.getInstance("TLS"))).getMessage();
        check(says.contains("call init()"), says);
    }

    private static void noTls() throws Exception {
        Options options = believing(daemons, null, null);
        for (String text : List.of(ClientTest.WELCOME, "48545450202020202020", "")) {
            byte[] bytes = unhex(text);
            Play says = client -> {
                client.getOutputStream().write(bytes);
                client.shutdownOutput();
                client.getInputStream().readAllBytes();
            };
            at(says, address -> refused(address, options, "SSL message", "terminated the handshake", "SSL peer"));
        }
        Options soon = options.within(Duration.ofMillis(200));
        SessionOptions session = new SessionOptions().connect(soon).reconnectWithin(Duration.ofSeconds(1));
        at(client -> client.getInputStream().readAllBytes(), address -> {
            ConsortException late = refused(address, soon);
            check(late.kind() == Kind.TIMED_OUT && late.getMessage().endsWith("did not let us in in time"), late);
            fails(Kind.UNREACHABLE, () -> Session.connect(List.of(address), session));
        });
    }

    private static void oldVersions() throws Exception {
        SSLContext own = daemons.believing(daemons, HERE);
        Play old = client -> {
            SSLSocket sealed = accepts(client, own);
            sealed.setEnabledProtocols(new String[] {"TLSv1.2"});
            sealed.startHandshake();
        };
        at(old, address -> refused(address, believing(daemons, null, null), "protocol_version"));
    }

    private static void silence() throws Exception {
        SSLContext own = daemons.believing(daemons, HERE);
        Play play = client -> {
            SSLSocket sealed = accepts(client, own);
            sealed.getOutputStream().write(unhex(ClientTest.WELCOME + "0000000180"));
            sealed.getInputStream().readAllBytes();
        };
        Options options = believing(daemons, null, null).hostTimeout(Duration.ofSeconds(1));
        at(play, address -> {
            Client client = Client.connect(address, options);
            try {
                check(client.receive(LONG) != null, "it is not given up");
                throw new AssertionError("something came");
            } catch (ConsortException error) {
                check(error.kind() == Kind.CONNECTION_LOST && error.getMessage().contains("nothing was heard"), error);
                Throwable cause = error.getCause() instanceof ConsortException first ? first.getCause() : error.getCause();
                check(cause instanceof SocketTimeoutException, cause);
            }
        });
    }

    private static <E extends Event> E next(Client client, Class<E> kind) throws Exception {
        while (true) {
            Event event = client.receive(LONG);
            check(event != null, "no " + kind.getSimpleName() + " came");
            if (kind.isInstance(event)) {
                return kind.cast(event);
            }
        }
    }

    private static void certificates() throws Exception {
        String rules = "[[rights]]\nwho = [\"certificate:*.billing\"]\ngroups = [\"orders\"]\nallow = [\"join\", \"send\"]\n"
                + "[[rights]]\nwho = [\"certificate:audit\"]\ngroups = [\"*\"]\nallow = [\"join\", \"see\"]\n";
        try (RealDaemons daemon = new RealDaemons(1, security(true) + rules);
                Client sender = Client.connect(daemon.address(), believing(daemons, clients, BILLING));
                Client auditor = Client.connect(daemon.address(), believing(daemons, clients, AUDIT))) {
            auditor.join("orders");
            next(auditor, Event.GroupView.class);
            byte[] large = new byte[1 << 20];
            Arrays.fill(large, (byte) 7);
            sender.multicast(Service.AGREED, List.of("orders"), large);
            check(Arrays.equals(next(auditor, Event.Message.class).payload(), large), "another came");
            sender.settle(LONG);
            auditor.multicast(Service.AGREED, List.of("orders"), "no".getBytes());
            String text = next(auditor, Event.Refused.class).text();
            check(text.equals("certificate:audit may not send to orders: no rule allows it"), text);
        }
    }

    private static void tokens() throws Exception {
        Path file = Files.createTempDirectory("consort").resolve("tokens");
        Process made = new ProcessBuilder(RealDaemons.program(), "token", file.toString(), "ann").start();
        String token = new String(made.getInputStream().readAllBytes()).strip();
        check(made.waitFor() == 0, token);
        String rules = "tokens = \"" + file + "\"\n"
                + "[[rights]]\nwho = [\"token:ann\"]\ngroups = [\"g\"]\nallow = [\"join\", \"see\"]\n";
        Options options = believing(daemons, null, null);
        try (RealDaemons daemon = new RealDaemons(1, security(false) + rules);
                Client ann = Client.connect(daemon.address(), options.token(token))) {
            ann.join("g");
            check(next(ann, Event.GroupView.class).members().size() == 1, "she is alone");
            fails(Kind.NOT_WELCOME, () -> Client.connect(daemon.address(), options.token("s1.ann.00")));
        }
    }

    private static void refusals() throws Exception {
        try (RealDaemons daemon = new RealDaemons(1, security(true))) {
            String address = daemon.address();
            refused(address, believing(others, clients, BILLING), "unable to find valid certification path");
            String byName = address.replace("127.0.0.1", "localhost");
            refused(byName, believing(daemons, clients, BILLING), "localhost");
            // The client is through before the daemon looks at its certificate.
            for (int round = 0; round < 10; round++) {
                refused(address, believing(daemons, null, null), "certificate_required");
                refused(address, believing(daemons, others, BILLING), "certificate_required", "unknown_ca");
            }
            check(refused(address, new Options().within(Duration.ofSeconds(5))).kind() != Kind.NOT_WELCOME, "no TLS");
            Client.connect(address, believing(daemons, clients, BILLING)).close();
        }
    }

    private static void goesOn() throws Exception {
        SessionOptions options = new SessionOptions().connect(believing(daemons, clients, BILLING))
                .reconnectWithin(Duration.ofMinutes(5));
        try (RealDaemons cluster = new RealDaemons(3, security(true));
                Session session = Session.connect(cluster.addresses(), options)) {
            for (int round = 0; round < 2; round++) {
                for (int time = 0; time < 20; time++) {
                    Fate fate = session.outcome(SessionTest.send(session, "one dozen")).get(3, TimeUnit.MINUTES);
                    check(fate instanceof Fate.Ordered, fate);
                }
                if (round == 0) {
                    cluster.kill(0);
                }
            }
            SessionTest.next(session, SessionEvent.Lost.class);
            String address = SessionTest.next(session, SessionEvent.Connected.class).address();
            check(cluster.addresses().indexOf(address) > 0, address);
        }
    }
}

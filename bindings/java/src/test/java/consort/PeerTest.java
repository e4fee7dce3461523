package consort;

import static consort.ClientTest.check;

import consort.ConsortException.Kind;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.FileOwnerAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** Tests of which daemons a token is shown to: run by {@link ClientTest}. */
final class PeerTest {
    /** Of no user of the machine. */
    private static final int STRANGER = 12_345;
    private static final Options SHOWING = new Options().token("abc");
    /** A process of another user, which prints for each client how many bytes it sent, and hangs up. */
    private static final String PLAYS_STRANGER = String.join("\n",
            "import os, socket, sys",
            "os.setuid(" + STRANGER + ")",
            "listener = socket.socket(socket.AF_UNIX)",
            "listener.bind(sys.argv[1])",
            "os.chmod(sys.argv[1], 0o777)",
            "listener.listen()",
            "print('ready', flush=True)",
            "while True:",
            "    client, _ = listener.accept()",
            "    count = len(client.recv(1024))",
            "    client.close()",
            "    print(count, flush=True)");

    private PeerTest() {}

    static void runAll() throws Exception {
        ClientTest.run("a token is shown to a daemon of this user", PeerTest::ownDaemon);
        if (!Files.getOwner(Path.of("/proc/self")).equals(Peer.user(0))) {
            System.out.println("tests of daemons of other users are left out: only root can give a directory to another user");
            return;
        }
        ClientTest.run("an owner who alone decides what is in a directory", PeerTest::owners);
        if (!hasPython()) {
            System.out.println("tests of daemons of other users are left out: no program `python3`, which plays them");
            return;
        }
        ClientTest.run("no token is shown to a daemon of another user", PeerTest::stranger);
        ClientTest.run("a token is shown to the owner of the directory", PeerTest::ownerOfTheDirectory);
    }

    private static boolean hasPython() throws InterruptedException {
        try {
            return new ProcessBuilder("python3", "--version").start().waitFor() == 0;
        } catch (IOException missing) {
            return false;
        }
    }

    /** A directory below which a test makes others; root owns it, and other users can go through it. */
    private static final class Base implements AutoCloseable {
        private final Path path = Files.createTempDirectory("consort");

        Base() throws IOException {
            Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rwxr-xr-x"));
        }

        /** A directory that it makes. */
        Path made(String name, String mode, int owner) throws IOException {
            return given(Files.createDirectory(path.resolve(name)), mode, owner);
        }

        static Path given(Path directory, String mode, int owner) throws IOException {
            Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString(mode));
            return Files.setOwner(directory, Peer.user(owner));
        }

        Path linked(String name, Path to, int owner) throws IOException {
            Path link = Files.createSymbolicLink(path.resolve(name), to);
            Files.getFileAttributeView(link, FileOwnerAttributeView.class, LinkOption.NOFOLLOW_LINKS)
                    .setOwner(Peer.user(owner));
            return link;
        }

        @Override
        public void close() throws IOException {
            try (Stream<Path> all = Files.walk(path)) {
                for (Path one : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(one);
                }
            }
        }
    }

    private static void ownDaemon() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Path directory = Path.of(daemon.address()).getParent();
            Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
            Client.connect(daemon.address(), SHOWING);
        }
    }

    /** It has such an owner; none with -1. */
    private static void isOf(int owner, Path directory) throws IOException {
        UserPrincipal found = Peer.ownerOf(directory, Peer.known(Peer.user(0)));
        check(owner < 0 ? found == null : Peer.user(owner).equals(found), directory + " is of " + found);
    }

    private static void owners() throws Exception {
        try (Base base = new Base()) {
            Path theirs = base.made("theirs", "rwxr-xr-x", STRANGER);
            Path shared = base.made("shared", "rwxrwxrwx", 0);
            Path group = base.made("group", "rwxrwxr-x", STRANGER);
            Path below = base.made("theirs/below", "rwxr-xr-x", STRANGER);
            Path squatted = base.made("shared/squatted", "rwxr-xr-x", STRANGER);
            for (Path ofRoot : List.of(Path.of("/"), base.path, base.made("shared/roots", "rwxr-xr-x", 0))) {
                isOf(0, ofRoot);
            }
            for (Path ofTheirs : List.of(theirs, below, base.path.resolve("./theirs"), below.resolve(".."))) {
                isOf(STRANGER, ofTheirs);
            }
            for (Path open : List.of(shared, group, squatted, squatted.resolve(".."))) {
                isOf(-1, open);
            }
            isOf(-1, base.made("group/below", "rwxr-xr-x", STRANGER));
            isOf(-1, base.made("group/roots", "rwxr-xr-x", 0));
            isOf(-1, base.made("theirs/of a third", "rwxr-xr-x", STRANGER + 1));
            isOf(-1, base.made("theirs/roots", "rwxr-xr-x", 0));
            links(base, theirs, below);
            UserPrincipal own = Peer.ownerOf(squatted, Peer.known(Peer.user(STRANGER)));
            check(Peer.user(STRANGER).equals(own), "it is this user's own");
            try {
                Peer.ownerOf(base.path.resolve("none"), Peer.known(Peer.user(0)));
                throw new AssertionError("there is none");
            } catch (NoSuchFileException expected) {
                check(expected.getFile().endsWith("none"), expected);
            }
        }
    }

    private static void links(Base base, Path theirs, Path below) throws IOException {
        Path link = base.linked("link", below, 0);
        isOf(STRANGER, link);
        // It is the parent of what the link leads to.
        isOf(STRANGER, link.resolve(".."));
        isOf(-1, base.linked("their link", theirs, STRANGER));
        isOf(-1, base.linked("shared/their link", theirs, STRANGER));
        isOf(STRANGER, base.linked("shared/link", Path.of("../theirs"), 0));
        // The way behind the link counts, too.
        isOf(-1, base.linked("to squatted", base.path.resolve("shared/squatted"), 0));
    }

    /** A daemon of another user. */
    private static final class Stranger implements AutoCloseable {
        private final String address;
        private final Process process;
        private final BufferedReader prints;

        Stranger(Path directory) throws Exception {
            address = directory.resolve("socket").toString();
            ProcessBuilder builder = new ProcessBuilder("python3", "-c", PLAYS_STRANGER, address);
            process = builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
            prints = new BufferedReader(new InputStreamReader(process.getInputStream()));
            check("ready".equals(next()), "the other user's daemon did not start");
        }

        String next() throws Exception {
            return CompletableFuture.supplyAsync(() -> prints.lines().findFirst().orElse("")).get(20, TimeUnit.SECONDS);
        }

        @Override
        public void close() {
            process.destroyForcibly().onExit().join();
        }
    }

    private static ConsortException refusal(String address, Options options) throws Exception {
        try (Client client = Client.connect(address, options)) {
            throw new AssertionError(client.name() + " was admitted");
        } catch (ConsortException error) {
            return error;
        }
    }

    private static void isRefused(Stranger stranger) throws Exception {
        ConsortException refused = refusal(stranger.address, SHOWING);
        String text = "no token is shown to the daemon at " + stranger.address + ": it runs as user 12345, which is "
                + "neither this user nor root, nor the only one who may write to the socket's directory";
        check(refused.kind() == Kind.CANNOT_CONNECT && refused.getMessage().equals(text), refused);
        String count = stranger.next();
        check(count.equals("0"), count + " bytes were sent");
    }

    private static void stranger() throws Exception {
        try (Base base = new Base();
                Stranger stranger = new Stranger(base.made("shared", "rwxrwxrwx", 0))) {
            isRefused(stranger);
            Path directory = base.path.resolve("shared");
            Base.given(directory, "rwxrwxrwx", STRANGER);
            isRefused(stranger);
            for (int owner : List.of(0, STRANGER + 1)) {
                Base.given(directory, "rwxr-xr-x", owner);
                isRefused(stranger);
            }
            ConsortException refused = refusal(stranger.address, new Options());
            check(refused.kind() == Kind.NO_DAEMON, "without a token nothing is checked: " + refused);
            check(!stranger.next().equals("0"), "no hello was sent");
        }
    }

    private static void ownerOfTheDirectory() throws Exception {
        try (Base base = new Base();
                Stranger stranger = new Stranger(base.made("theirs", "rwxr-xr-x", STRANGER))) {
            ConsortException refused = refusal(stranger.address, SHOWING);
            check(refused.kind() == Kind.NO_DAEMON, refused);
            String count = stranger.next();
            int all = Handshake.hello(SHOWING, new Silence(SHOWING.daemonTimeout()).interval()).length;
            check(count.equals(String.valueOf(all)), count + " bytes were sent, not " + all);
        }
    }
}

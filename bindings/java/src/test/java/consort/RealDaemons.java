package consort;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;

/** Daemons of this machine that are one cluster and speak TLS; each may be killed. */
final class RealDaemons implements AutoCloseable {
    private static final RandomGenerator CHANCE = RandomGenerator.getDefault();

    /** The path of a socket may not be long. */
    private final Path directory = Files.createTempDirectory("consort");
    private final List<Process> processes = new ArrayList<>();
    private final List<String> addresses = new ArrayList<>();

    /** So many, which are configured with this, too. */
    RealDaemons(int count, String more) throws Exception {
        int first = freePorts(5 * count);
        StringBuilder text = new StringBuilder("cluster = \"java-" + ProcessHandle.current().pid() + "-" + first + "\"\n"
                + "multicast = \"off\"\nstate = \"" + directory.resolve("state") + "\"\n");
        for (int node = 1; node <= count; node++) {
            text.append("[[node]]\nid = " + node + "\naddress = \"127.0.0.1:" + (first + 4 * (node - 1)) + "\"\n");
        }
        for (int node = 1; node <= count; node++) {
            String address = "127.0.0.1:" + (first + 4 * count + node - 1);
            addresses.add(address);
            Path file = directory.resolve("consort-" + node + ".toml");
            Files.writeString(file, text + "[clients]\nlisten_tls = [\"" + address + "\"]\n" + more);
            start(file, node);
        }
    }

    /** Where the program is; {@code null} where nobody says so. */
    static String program() {
        return System.getenv("CONSORT_PROGRAM");
    }

    /** The first of so many ports that nobody has, and that the kernel hands out to nobody. */
    private static int freePorts(int count) throws IOException {
        for (int attempt = 0; attempt < 1000; attempt++) {
            int first = CHANCE.nextInt(10_000, 30_000);
            if (areFree(first, count)) {
                return first;
            }
        }
        throw new IOException("no ports are free");
    }

    private static boolean areFree(int first, int count) {
        InetAddress here = InetAddress.getLoopbackAddress();
        for (int port = first; port < first + count; port++) {
            try {
                new ServerSocket(port, 1, here).close();
                new DatagramSocket(port, here).close();
            } catch (IOException taken) {
                return false;
            }
        }
        return true;
    }

    private void start(Path file, int node) throws Exception {
        // It ends with this process, whatever becomes of that.
        ProcessBuilder builder = new ProcessBuilder(program(), "daemon", "--while-stdin-open", "--log", "warn", "--config",
                file.toString(), "--node", String.valueOf(node));
        builder.environment().put("CONSORT_RUNTIME_DIR", directory.resolve("run").toString());
        Path log = directory.resolve("log-" + node);
        Process process = builder.redirectError(log.toFile()).start();
        processes.add(process);
        String line = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
        if (line == null || !line.contains("serves clients at ")) {
            close();
            throw new AssertionError("the daemon did not start; it said " + line + " " + Files.readString(log));
        }
    }

    /** Where TLS is spoken. */
    List<String> addresses() {
        return addresses;
    }

    String address() {
        return addresses.get(0);
    }

    /** Ends a daemon as a crash does. */
    void kill(int at) {
        processes.get(at).destroyForcibly().onExit().orTimeout(20, TimeUnit.SECONDS).join();
    }

    @Override
    public void close() {
        for (int at = 0; at < processes.size(); at++) {
            kill(at);
        }
    }
}

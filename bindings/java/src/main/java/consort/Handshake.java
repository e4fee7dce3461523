package consort;

import consort.ConsortException.Kind;
import consort.ConsortException.Reason;
import consort.Event.DaemonId;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.BufferUnderflowException;
import java.time.Duration;
import javax.net.ssl.SSLException;

/**
 * A daemon that has let a client in.
 *
 * @param connection the stream there
 * @param welcome what it said
 * @param from where it says more
 */
record Handshake(Connection connection, Welcome welcome, DataInputStream from) {
    /** What a daemon says when it lets a client in. */
    record Welcome(DaemonId daemon, String name, long messageMax, long creditMax, int groupsMax) {
        /** The largest frame that is believed. */
        int frameMax() {
            return (int) Math.min(messageMax + Wire.TEXT_MAX, Integer.MAX_VALUE);
        }
    }

    /**
     * Connects to a daemon. One of an earlier release is asked again for what it knows.
     *
     * @throws ConsortException {@code INVALID}, {@code CANNOT_CONNECT}, {@code NO_DAEMON}, {@code NOT_WELCOME},
     *     {@code TIMED_OUT}
     */
    static Handshake open(String address, Options options) throws ConsortException {
        SocketAddress at = options.check(address);
        Duration bound = options.silenceAt(at);
        long began = System.nanoTime();
        try {
            return greet(Connection.open(address, at, options.within(), options.tls(), new Silence(bound)), address, options);
        } catch (ConsortException error) {
            if (bound == null || !error.isOfAnEarlierRelease()) {
                throw error;
            }
            Duration left = options.within().minusNanos(System.nanoTime() - began);
            return greet(Connection.open(address, at, left, options.tls(), new Silence(null)), address, options);
        }
    }

    private static Handshake greet(Connection connection, String address, Options options) throws ConsortException {
        try {
            if (!options.token().isEmpty()) {
                connection.checkUser(address);
            }
            return greet(connection, address, hello(options, connection.interval()));
        } catch (ConsortException error) {
            ConsortException late = connection.isLate(address);
            connection.close();
            throw late == null ? error : late;
        }
    }

    /** What such a client says first; it asks for heartbeats in this interval in milliseconds, for none with 0. */
    static byte[] hello(Options options, long interval) {
        int flags = (options.views() ? 1 : 0) | (options.positions() ? 16 : 0) | (interval == 0 ? 0 : 32)
                | (options.token().isEmpty() ? 0 : 128);
        Wire.Request hello = new Wire.Request(Wire.HELLO).number(Wire.MAGIC, 4).number(Wire.VERSION, 2).number(flags, 1);
        hello.name(options.name()).bytes(new byte[16]).number(interval, interval == 0 ? 0 : 4);
        return (options.token().isEmpty() ? hello : hello.name(options.token())).frame();
    }

    private static Handshake greet(Connection connection, String address, byte[] hello) throws ConsortException {
        String notOne = address + ": it does not answer like a Consort daemon: ";
        try {
            say(connection, hello);
            DataInputStream from = new DataInputStream(new BufferedInputStream(connection.input(), 64 << 10));
            Welcome welcome = welcome(Wire.read(from, Wire.TEXT_MAX));
            if (!connection.letIn()) {
                throw new IOException("too late");
            }
            return new Handshake(connection, welcome, from);
        } catch (SSLException error) {
            // The daemon refuses a client's certificate when the client is through already.
            throw ConsortException.cannotConnect(address, error);
        } catch (IOException error) {
            String why = error instanceof EOFException ? "it closed the connection" : error.getMessage();
            throw ConsortException.of(Kind.NO_DAEMON, notOne + why);
        } catch (BufferUnderflowException error) {
            throw ConsortException.of(Kind.NO_DAEMON, notOne + "its welcome is too short");
        }
    }

    private static void say(Connection connection, byte[] hello) {
        try {
            connection.write(hello);
        } catch (IOException error) {
            // What the daemon said last tells more.
        }
    }

    private static Welcome welcome(Wire.Frame frame) throws IOException, ConsortException {
        Wire.Fields fields = frame.fields();
        if (frame.kind() == Wire.DISCONNECT) {
            throw ConsortException.notWelcome(Wire.named(Reason.values(), fields.u8()), fields.text());
        }
        if (frame.kind() != Wire.WELCOME) {
            throw new IOException(String.format("it began with an event of kind %#x", frame.kind()));
        }
        int spoken = fields.u16();
        if (spoken != Wire.VERSION) {
            throw new IOException("it speaks version " + spoken + ", this client version " + Wire.VERSION
                    + "; use those of one release");
        }
        DaemonId daemon = fields.daemon();
        fields.u64();
        fields.u32();
        fields.text();
        Welcome welcome = new Welcome(daemon, fields.name(), fields.u32(), fields.u32(), fields.u16());
        fields.done("welcome");
        return welcome;
    }
}

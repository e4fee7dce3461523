package consort;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import javax.net.ssl.SSLContext;

/** A stream to a daemon: TCP, or a Unix socket. */
final class Connection implements AutoCloseable {
    private static final ScheduledThreadPoolExecutor CLOCK = clock();

    private final SocketChannel channel;
    /** It was closed because connecting took too long. */
    private final AtomicBoolean late = new AtomicBoolean();
    private final Silence silence;
    private ScheduledFuture<?> limit;
    /** TLS above the channel; nothing where it is not spoken. It is never closed, which could wait: the channel is. */
    private Socket sealed;

    private Connection(SocketChannel channel, Silence silence) {
        this.channel = channel;
        this.silence = silence;
    }

    private static ScheduledThreadPoolExecutor clock() {
        ScheduledThreadPoolExecutor clock = new ScheduledThreadPoolExecutor(1, task -> {
            Thread thread = new Thread(task, "consort-clock");
            thread.setDaemon(true);
            return thread;
        });
        clock.setRemoveOnCancelPolicy(true);
        return clock;
    }

    /** Connects; {@link #letIn} must follow in the same time. */
    static Connection open(String address, SocketAddress at, Duration within, SSLContext tls, Silence silence)
            throws ConsortException {
        boolean isUnix = at instanceof UnixDomainSocketAddress;
        try {
            SocketChannel channel = isUnix ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
            Connection connection = new Connection(channel, silence);
            connection.limit = CLOCK.schedule(connection::giveUp, Times.nanos(within), TimeUnit.NANOSECONDS);
            connection.connect(address, at, tls);
            return connection;
        } catch (IOException | RuntimeException error) {
            throw ConsortException.cannotConnect(address, error);
        }
    }

    private void connect(String address, SocketAddress at, SSLContext tls) throws ConsortException {
        try {
            channel.connect(resolved(at));
            if (at instanceof InetSocketAddress named) {
                channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
                if (tls != null) {
                    Sealed.Below below = new Sealed.Below(channel, Channels.newInputStream(readable()), writable());
                    sealed = Sealed.shakeHands(tls, named, below);
                }
            }
        } catch (IOException | RuntimeException error) {
            ConsortException why = isLate(address);
            close();
            throw why == null ? ConsortException.cannotConnect(address, error) : why;
        }
    }

    /** Names of hosts are looked up here, for each connection anew. */
    private static SocketAddress resolved(SocketAddress at) throws UnknownHostException {
        if (!(at instanceof InetSocketAddress named)) {
            return at;
        }
        InetSocketAddress found = new InetSocketAddress(named.getHostString(), named.getPort());
        if (found.isUnresolved()) {
            throw new UnknownHostException("no host is called `" + named.getHostString() + "`");
        }
        return found;
    }

    /** Refuses a daemon at a Unix socket that may not see a token. */
    void checkUser(String address) throws ConsortException {
        try {
            Peer.check(channel, address);
        } catch (IOException | RuntimeException error) {
            throw ConsortException.cannotConnect(address, error);
        }
    }

    private void giveUp() {
        late.set(true);
        close();
    }

    /** What to tell where the time was not enough; nothing where it was. */
    ConsortException isLate(String address) {
        String text = address + " did not let us in in time";
        return late.get() ? ConsortException.of(ConsortException.Kind.TIMED_OUT, text) : null;
    }

    /** The session is open: it may take as long as it likes from here on. False if it was too late. */
    boolean letIn() {
        return limit.cancel(false) && !late.get();
    }

    InputStream input() throws IOException {
        return sealed == null ? Channels.newInputStream(readable()) : sealed.getInputStream();
    }

    /** Reading and writing at once: a channel's own streams exclude each other where the channel can be configured. */
    private ReadableByteChannel readable() {
        return new ReadableByteChannel() {
            @Override
            public int read(ByteBuffer into) throws IOException {
                silence.onRead(System.nanoTime());
                try {
                    int count = channel.read(into);
                    silence.onBytes();
                    return count;
                } catch (IOException error) {
                    silence.tell();
                    throw error;
                }
            }

            @Override
            public boolean isOpen() {
                return channel.isOpen();
            }

            @Override
            public void close() throws IOException {
                channel.close();
            }
        };
    }

    /** How often the daemon is to tell that it is at work, in milliseconds; 0 where it need not. */
    long interval() {
        return silence.interval();
    }

    /** The daemon says that it is at work, and that it will say so again. */
    void onHeartbeat() {
        if (silence.onHeartbeat()) {
            lookLater();
        }
    }

    private void lookLater() {
        CLOCK.schedule(this::look, silence.step(), TimeUnit.NANOSECONDS);
    }

    /** A channel's reads take no time with them; so the clock looks, and closes it under the reader. */
    private void look() {
        if (silence.isOver(System.nanoTime())) {
            close();
        } else if (channel.isOpen()) {
            lookLater();
        }
    }

    void write(byte[] bytes) throws IOException {
        if (sealed == null) {
            write(ByteBuffer.wrap(bytes));
        } else {
            sealed.getOutputStream().write(bytes);
        }
    }

    private void write(ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    private OutputStream writable() {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                write(new byte[] {(byte) one});
            }

            @Override
            public void write(byte[] from, int at, int length) throws IOException {
                Connection.this.write(ByteBuffer.wrap(from, at, length));
            }
        };
    }

    @Override
    public void close() {
        if (limit != null) {
            limit.cancel(false);
        }
        try {
            channel.close();
        } catch (IOException ignored) {
            // It is of no use any more either way.
        }
    }

    /** A path with a slash in it, or host:port. */
    static SocketAddress read(String address) throws ConsortException {
        if (address.startsWith("unix:") && address.length() > "unix:".length()) {
            return unix(address.substring("unix:".length()));
        }
        if (address.contains("/")) {
            return unix(address);
        }
        String at = address.startsWith("tcp:") ? address.substring("tcp:".length()) : address;
        int colon = at.lastIndexOf(':');
        String digits = at.substring(colon + 1);
        if (colon <= 0 || !digits.matches("[0-9]{1,5}") || Integer.parseInt(digits) > 0xffff) {
            throw ConsortException.invalid(
                    "`" + address + "` is no address; write a path with a slash in it, or host:port");
        }
        String host = at.substring(0, colon).replaceAll("^\\[|\\]$", "");
        return InetSocketAddress.createUnresolved(host, Integer.parseInt(digits));
    }

    private static SocketAddress unix(String path) throws ConsortException {
        try {
            return UnixDomainSocketAddress.of(path);
        } catch (RuntimeException error) {
            throw ConsortException.invalid("`" + path + "` is no path: " + error.getMessage());
        }
    }
}

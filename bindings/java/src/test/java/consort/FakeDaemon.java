package consort;

import static consort.ClientTest.check;
import static consort.ClientTest.unhex;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Lets sessions in at a socket of its own, and says what the test wants. */
final class FakeDaemon implements AutoCloseable {
    private static final ScheduledExecutorService CLOCK = Executors.newScheduledThreadPool(1, work -> {
        Thread thread = new Thread(work, "fake-clock");
        thread.setDaemon(true);
        return thread;
    });

    private final Path directory = Files.createTempDirectory("consort");
    private final Path socket = directory.resolve("socket");
    private final ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    private final BlockingQueue<Talk> talks = new LinkedBlockingQueue<>();

    /** One that says welcome to whoever comes. */
    FakeDaemon() throws IOException {
        this(ClientTest.WELCOME);
    }

    /** One that says this to whoever comes. */
    FakeDaemon(String says) throws IOException {
        listener.bind(UnixDomainSocketAddress.of(socket));
        Client.start("fake-daemon", () -> serve(unhex(says)));
    }

    private void serve(byte[] says) {
        try {
            while (true) {
                Talk talk = new Talk(listener.accept());
                if (Wire.read(talk.from, Wire.TEXT_MAX).kind() == Wire.HELLO) {
                    talk.channel.write(ByteBuffer.wrap(says));
                    talks.add(talk);
                }
            }
        } catch (IOException closed) {
            // The test is over.
        }
    }

    String address() {
        return socket.toString();
    }

    /** The next connection. */
    Talk next() throws InterruptedException {
        Talk talk = talks.poll(20, TimeUnit.SECONDS);
        check(talk != null, "nobody came");
        return talk;
    }

    boolean hasNext() {
        return !talks.isEmpty();
    }

    /** The next connection, whose producer is open with so many messages in the order. */
    Talk opens(long last) throws Exception {
        Talk talk = next();
        talk.hears(Wire.OPEN);
        talk.opened(last, false);
        return talk;
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (Talk talk : talks) {
            talk.hangUp();
        }
        Files.deleteIfExists(socket);
        Files.deleteIfExists(directory);
    }

    /** One connection. */
    static final class Talk {
        private final SocketChannel channel;
        private final DataInputStream from;

        private Talk(SocketChannel channel) {
            this.channel = channel;
            this.from = new DataInputStream(Channels.newInputStream(channel));
        }

        /** The next request. It is waited for, but not for ever. */
        private Wire.Frame read() throws IOException {
            ScheduledFuture<?> late = CLOCK.schedule(() -> {
                channel.close();
                return null;
            }, 20, TimeUnit.SECONDS);
            try {
                return Wire.read(from, 1 << 30);
            } finally {
                late.cancel(false);
            }
        }

        /** The next request, which is of this kind. */
        Wire.Fields hears(int kind) throws IOException {
            Wire.Frame frame = read();
            check(frame.kind() == kind, String.format("request %#x, not %#x", frame.kind(), kind));
            return frame.fields();
        }

        /** The next request, which is an agreed multicast to `g` of this text. */
        void hearsSend(String text) throws IOException {
            Wire.Fields fields = hears(Wire.MULTICAST + Service.AGREED.number);
            check(fields.u16() == 1 && fields.name().equals("g"), "its targets");
            String heard = new String(fields.rest());
            check(heard.equals(text), heard + ", not " + text);
        }

        /** The client leaves. */
        void hearsTheEnd() throws IOException {
            try {
                Wire.Frame frame = read();
                throw new AssertionError(String.format("request %#x, and no end", frame.kind()));
            } catch (EOFException end) {
                channel.close();
            }
        }

        void says(Wire.Request event) throws IOException {
            saysBytes(event.frame());
        }

        void saysBytes(byte[] bytes) throws IOException {
            ByteBuffer all = ByteBuffer.wrap(bytes);
            while (all.hasRemaining()) {
                channel.write(all);
            }
        }

        void opened(long last, boolean forgotten) throws IOException {
            Wire.Request opened = new Wire.Request(Wire.OPENED).number(last, 8).number(1, 8).number(100 + last, 8);
            says(opened.number(forgotten ? 1 : 0, 1));
        }

        /** All up to this number stand in the order, the last of them at 100 and its number in view 1. */
        void settled(long number) throws IOException {
            says(new Wire.Request(Wire.SETTLED).number(number, 8).number(1, 8).number(100 + number, 8));
        }

        void progress(long ordered, long credit) throws IOException {
            says(new Wire.Request(Wire.PROGRESS).number(ordered, 8).number(ordered, 8).number(credit, 8));
        }

        void refused(long request, Event.RefusalCause cause, String text) throws IOException {
            says(text(new Wire.Request(Wire.REFUSED).number(request, 8).number(cause.ordinal(), 1), text));
        }

        void disconnects(ConsortException.Reason reason, String text) throws IOException {
            says(text(new Wire.Request(Wire.DISCONNECT).number(reason.ordinal(), 1), text));
        }

        static Wire.Request text(Wire.Request event, String text) {
            byte[] bytes = text.getBytes();
            return event.number(bytes.length, 2).bytes(bytes);
        }

        void hangUp() throws IOException {
            channel.close();
        }
    }
}

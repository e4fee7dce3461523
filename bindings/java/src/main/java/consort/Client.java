package consort;

import consort.ConsortException.Kind;
import consort.ConsortException.Reason;
import consort.ConsortException.UnknownFate;
import consort.Event.DaemonId;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;

/**
 * A session with a daemon, for any number of threads.
 *
 * <pre>{@code
 * try (Client client = Client.connect("127.0.0.1:4840", new Options().name("ann"))) {
 *     client.join("orders");
 *     client.multicast(Service.AGREED, List.of("orders"), "one dozen".getBytes(UTF_8));
 *     while (true) {
 *         if (client.receive() instanceof Event.Message message) {
 *             System.out.println(message.sender() + ": " + new String(message.payload(), UTF_8));
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>Events are received by {@link #receive()}, or by whoever subscribes to {@link #events()}; not by both. Sends are
 * numbered from 1 in the order in which they return.
 */
public final class Client implements AutoCloseable {
    private static final Duration GOODBYE = Duration.ofSeconds(10);

    private final Connection connection;
    private final Handshake.Welcome welcome;
    private final Ledger ledger;
    private final EventQueue events = new EventQueue();
    /** The reader's alone. */
    private final EventDecoder decoder = new EventDecoder();

    private Client(Handshake opened) {
        this.connection = opened.connection();
        this.welcome = opened.welcome();
        this.ledger = new Ledger(welcome.creditMax());
        start("consort-reads", () -> read(opened.from()));
        start("consort-writes", this::write);
    }

    static Thread start(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    /**
     * Connects to a daemon and opens a session.
     *
     * @param address a path of a Unix socket, with a slash in it, or host:port
     * @param options how
     * @throws ConsortException {@code INVALID}, {@code CANNOT_CONNECT}, {@code NO_DAEMON}, {@code NOT_WELCOME},
     *     {@code TIMED_OUT}
     */
    public static Client connect(String address, Options options) throws ConsortException {
        return new Client(Handshake.open(address, options));
    }

    /** What the client is called. */
    public String name() {
        return welcome.name();
    }

    /** The name by which others send to this client alone, as to a group. */
    public String privateName() {
        return Names.privateName(welcome.name(), welcome.daemon().node());
    }

    /** The client's daemon. */
    public DaemonId daemon() {
        return welcome.daemon();
    }

    /** The largest payload of one message, in bytes. */
    public long messageMax() {
        return welcome.messageMax();
    }

    /**
     * Asks to join a group, and returns the send's number. The group view that follows says that it happened.
     *
     * @throws ConsortException {@code INVALID}; otherwise the session is over
     */
    public long join(String group) throws ConsortException, InterruptedException {
        return toGroup(Wire.JOIN, group);
    }

    /** The same; if the group has no members yet, only members may send to it from here on. */
    public long joinClosed(String group) throws ConsortException, InterruptedException {
        return toGroup(Wire.JOIN_CLOSED, group);
    }

    /** Asks to leave a group, and returns the send's number. */
    public long leave(String group) throws ConsortException, InterruptedException {
        return toGroup(Wire.LEAVE, group);
    }

    private long toGroup(int kind, String group) throws ConsortException, InterruptedException {
        Names.checkGroup(group);
        return ledger.send(new Wire.Request(kind).name(group).frame(), null);
    }

    /** Sends a message, and waits for credit for as long as it takes. */
    public long multicast(Service service, List<String> to, byte[] payload) throws ConsortException, InterruptedException {
        return multicast(service, to, payload, null);
    }

    /**
     * Sends a message to groups, and to clients by their private names, and returns the send's number. Waits for credit.
     *
     * @param within how long to wait; {@code null} for as long as it takes
     * @throws ConsortException {@code INVALID}, {@code TARGETS}, {@code TOO_LARGE}, {@code TIMED_OUT}: nothing was sent;
     *     otherwise the session is over
     */
    public long multicast(Service service, List<String> to, byte[] payload, Duration within)
            throws ConsortException, InterruptedException {
        if (service == null) {
            throw ConsortException.invalid("no service was given");
        }
        if (to.isEmpty() || to.size() > welcome.groupsMax()) {
            throw ConsortException.of(
                    Kind.TARGETS, "a message to " + to.size() + " groups; name 1 to " + welcome.groupsMax());
        }
        if (payload.length > welcome.messageMax()) {
            throw ConsortException.of(Kind.TOO_LARGE,
                    "a message of " + payload.length + " bytes; this cluster allows " + welcome.messageMax());
        }
        return ledger.send(multicastFrame(service, to, payload), within);
    }

    /** The frame of a message; its names are checked. */
    static byte[] multicastFrame(Service service, List<String> to, byte[] payload) throws ConsortException {
        Wire.Request request = new Wire.Request(Wire.MULTICAST + service.number).number(to.size(), 2);
        for (String name : to) {
            Names.checkTarget(name);
            request.name(name);
        }
        return request.bytes(payload).frame();
    }

    /**
     * What becomes of a send: done once it is ordered or refused, exceptionally where the session ends first. A refusal is
     * an event, too.
     */
    public CompletableFuture<Void> ordered(long send) {
        return ledger.ordered(send);
    }

    /**
     * Waits until all that was sent so far is ordered or refused.
     *
     * @throws ConsortException {@code TIMED_OUT}; otherwise the session is over
     */
    public void settle(Duration within) throws ConsortException, InterruptedException {
        ledger.settle(within);
    }

    /**
     * The next event. Waits for as long as it takes.
     *
     * @throws ConsortException once the session is over and everything that came before was received
     */
    public Event receive() throws ConsortException, InterruptedException {
        return events.take(null);
    }

    /** The next event; {@code null} if none came in time. */
    public Event receive(Duration within) throws ConsortException, InterruptedException {
        return events.take(within);
    }

    /**
     * Where events come for one subscriber, each once it has asked for it. It is complete after a good-bye, and fails with
     * why the session is over. Whoever asks for nothing more holds up nothing but itself, until the daemon calls it slow.
     */
    public Flow.Publisher<Event> events() {
        return new EventPublisher<>(() -> events.take(null));
    }

    /** Says good-bye, and waits until the daemon has taken all that was sent, at most ten seconds. */
    @Override
    public void close() throws ConsortException {
        try {
            close(GOODBYE);
        } catch (InterruptedException interrupted) {
            connection.close();
            Thread.currentThread().interrupt();
        }
    }

    /**
     * Says good-bye and waits until the daemon has taken all that was sent. Events that were not received are lost.
     *
     * @throws ConsortException {@code TIMED_OUT} where it took longer; why the session was over before
     */
    public void close(Duration within) throws ConsortException, InterruptedException {
        events.close();
        try {
            ledger.close(new Wire.Request(Wire.GOODBYE).frame(), within);
        } finally {
            connection.close();
        }
    }

    private void write() {
        try {
            for (byte[] bytes = ledger.pending(); bytes != null; bytes = ledger.pending()) {
                connection.write(bytes);
            }
        } catch (IOException | InterruptedException over) {
            // The daemon's last words may still be unread: they say more.
        }
    }

    private void read(DataInputStream from) {
        try {
            while (true) {
                handle(Wire.read(from, welcome.frameMax()));
            }
        } catch (ConsortException end) {
            finish(end);
        } catch (EOFException error) {
            finish(ConsortException.lost("the daemon closed it", ledger.unknownFate(), error));
        } catch (BufferUnderflowException error) {
            finish(ConsortException.lost("the daemon sent a frame that is too short", ledger.unknownFate(), error));
        } catch (IOException | InterruptedException error) {
            finish(ConsortException.lost(String.valueOf(error.getMessage()), ledger.unknownFate(), error));
        }
    }

    private void finish(ConsortException end) {
        connection.close();
        boolean isOurs = end.reason() == Reason.GOODBYE;
        ConsortException told = isOurs ? Ledger.closed() : end;
        ledger.end(told);
        events.end(told);
    }

    private void handle(Wire.Frame frame) throws IOException, ConsortException, InterruptedException {
        Wire.Fields fields = frame.fields();
        switch (frame.kind()) {
            case Wire.HEARTBEAT -> {
                fields.done("heartbeat");
                connection.onHeartbeat();
            }
            case Wire.PROGRESS -> {
                fields.u64();
                long ordered = fields.u64();
                long credit = fields.u64();
                fields.done("progress");
                ledger.progress(ordered, credit);
            }
            case Wire.DISCONNECT -> {
                Reason reason = Wire.named(Reason.values(), fields.u8());
                throw ConsortException.disconnected(reason, fields.text(), ledger.unknownFate());
            }
            default -> {
                for (Event event : decoder.events(frame)) {
                    events.put(event);
                }
            }
        }
    }

    /** What was sent, and what came of it. */
    private static final class Ledger {
        private final long creditMax;
        private final TreeMap<Long, CompletableFuture<Void>> awaited = new TreeMap<>();
        private ByteArrayOutputStream pending = new ByteArrayOutputStream();
        private long sent;
        private long spent;
        private long ordered;
        private long credit;
        private ConsortException end;
        private boolean goodbye;

        Ledger(long creditMax) {
            this.creditMax = creditMax;
        }

        static ConsortException closed() {
            return ConsortException.of(Kind.CLOSED, "this client was closed; connect anew");
        }

        synchronized long send(byte[] frame, Duration within) throws ConsortException, InterruptedException {
            long until = EventQueue.until(within);
            while (true) {
                check();
                long underWay = spent - credit;
                if (underWay == 0 || underWay + frame.length <= creditMax) {
                    break;
                }
                if (!EventQueue.waits(this, until)) {
                    throw ConsortException.of(Kind.TIMED_OUT, "no credit came in the time allowed");
                }
            }
            sent++;
            spent += frame.length;
            pending.writeBytes(frame);
            notifyAll();
            return sent;
        }

        synchronized void settle(Duration within) throws ConsortException, InterruptedException {
            long until = EventQueue.until(within);
            long last = sent;
            while (ordered < last) {
                check();
                if (!EventQueue.waits(this, until)) {
                    throw ConsortException.of(Kind.TIMED_OUT, "not everything was ordered in the time allowed");
                }
            }
        }

        private void check() throws ConsortException {
            if (goodbye) {
                throw closed(); // first: whoever closed it need not hear that the connection went with it
            }
            if (end != null) {
                throw end.again();
            }
        }

        synchronized CompletableFuture<Void> ordered(long send) {
            if (send <= ordered) {
                return CompletableFuture.completedFuture(null);
            }
            if (end != null) {
                return CompletableFuture.failedFuture(end.again());
            }
            if (send > sent) {
                return CompletableFuture.failedFuture(ConsortException.invalid("there is no send " + send + " yet"));
            }
            return awaited.computeIfAbsent(send, number -> new CompletableFuture<>()).copy();
        }

        /** What is to be written next: all that was collected while the last write took its time. */
        synchronized byte[] pending() throws InterruptedException {
            while (pending.size() == 0 && end == null) {
                wait();
            }
            if (end != null) {
                return null;
            }
            byte[] bytes = pending.toByteArray();
            pending = new ByteArrayOutputStream();
            return bytes;
        }

        void progress(long ordered, long credit) throws IOException {
            Map<Long, CompletableFuture<Void>> done;
            synchronized (this) {
                if (Long.compareUnsigned(ordered, sent) > 0 || Long.compareUnsigned(credit, spent) > 0) {
                    throw new Wire.Malformed("progress beyond what was sent");
                }
                this.ordered = ordered;
                this.credit = credit;
                Map<Long, CompletableFuture<Void>> reached = awaited.headMap(ordered, true);
                done = new TreeMap<>(reached);
                reached.clear();
                notifyAll();
            }
            done.values().forEach(future -> future.complete(null));
        }

        synchronized UnknownFate unknownFate() {
            return new UnknownFate(ordered + 1, sent - ordered);
        }

        void end(ConsortException why) {
            Map<Long, CompletableFuture<Void>> lost;
            synchronized (this) {
                end = why;
                lost = new TreeMap<>(awaited);
                awaited.clear();
                notifyAll();
            }
            lost.values().forEach(future -> future.completeExceptionally(why.again()));
        }

        synchronized void close(byte[] goodbyeFrame, Duration within) throws ConsortException, InterruptedException {
            if (goodbye) {
                return;
            }
            goodbye = true;
            pending.writeBytes(goodbyeFrame);
            notifyAll();
            long until = EventQueue.until(within);
            while (end == null) {
                if (!EventQueue.waits(this, until)) {
                    throw ConsortException.of(Kind.TIMED_OUT, "the daemon did not answer the good-bye in time");
                }
            }
            if (end.kind() != Kind.CLOSED) {
                throw end.again();
            }
        }
    }
}

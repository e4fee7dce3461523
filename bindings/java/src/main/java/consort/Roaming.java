package consort;

import consort.ConsortException.Kind;
import consort.ConsortException.Reason;
import java.io.EOFException;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * A session's connections, one after the other: a thread connects and reads, another one writes, and whoever calls waits.
 * All they share is guarded by this object's lock.
 */
final class Roaming {
    /** So many bytes wait for the program at most. */
    private static final long UNREAD_MAX = 64 << 20;
    /** How long the good-bye of a session that is done may take. */
    private static final Duration FAREWELL = Duration.ofSeconds(1);

    private final SessionMachine machine;
    private final Options options;
    private final Thread thread;
    private Connection connection;
    /** Nobody sends any more. */
    private boolean isClosing;
    /** Why the session is over. */
    private ConsortException end;

    Roaming(List<String> addresses, SessionOptions options) {
        this.machine = new SessionMachine(addresses, options, System.nanoTime());
        this.options = options.connect();
        this.thread = Client.start("consort-session", this::run);
    }

    private static ConsortException closed() {
        return ConsortException.of(Kind.CLOSED, "this session was closed; connect anew");
    }

    private void run() {
        ConsortException why = closed();
        try {
            while (true) {
                serve(reach());
            }
        } catch (ConsortException over) {
            why = over;
        } catch (InterruptedException closed) {
            // Whoever has closed it knows.
        } catch (RuntimeException bug) {
            why = ConsortException.of(Kind.CONNECTION_LOST, "this session failed: " + bug, bug);
        } finally {
            finish(why);
        }
    }

    private synchronized void finish(ConsortException why) {
        if (end == null) {
            end = why;
            machine.events().end(why);
        }
        if (connection != null) {
            connection.close();
        }
        notifyAll();
    }

    /** Connects to the daemons, each in its turn, until one lets the session in. */
    private Handshake reach() throws ConsortException, InterruptedException {
        while (true) {
            try {
                return Handshake.open(nextAddress(), options);
            } catch (ConsortException why) {
                if (Thread.interrupted()) {
                    throw new InterruptedException();
                }
                synchronized (this) {
                    machine.failed(why, System.nanoTime());
                }
            }
        }
    }

    private synchronized String nextAddress() throws InterruptedException {
        while (true) {
            long left = machine.nextAttempt() - System.nanoTime();
            if (left <= 0) {
                return machine.address();
            }
            wait(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    /** Stays with a daemon for as long as it is of use. */
    private void serve(Handshake opened) throws ConsortException, InterruptedException {
        Link link = new Link(opened.welcome());
        synchronized (this) {
            connection = opened.connection();
            checkOpen();
            machine.connected(link);
            notifyAll();
        }
        Client.start("consort-writes", () -> write(opened.connection(), link));
        ConsortException why = listen(opened, link);
        opened.connection().close();
        synchronized (this) {
            connection = null;
            checkOpen();
            if (isClosing && why.reason() == Reason.GOODBYE) {
                throw closed();
            }
            if (why.endsSession()) {
                throw why;
            }
            machine.lost(why, System.nanoTime());
            notifyAll();
        }
    }

    private void checkOpen() throws InterruptedException {
        if (end != null) {
            throw new InterruptedException();
        }
    }

    /** Takes what the daemon says. Returns why it says nothing more. */
    private ConsortException listen(Handshake opened, Link link) throws InterruptedException {
        SessionFrames frames = new SessionFrames(machine);
        try {
            while (true) {
                take(Wire.read(opened.from(), opened.welcome().frameMax()), opened.connection(), link, frames);
            }
        } catch (ConsortException why) {
            return why;
        } catch (EOFException error) {
            return ConsortException.lost("the daemon closed it", error);
        } catch (BufferUnderflowException error) {
            return ConsortException.lost("the daemon sent a frame that is too short", error);
        } catch (IOException error) {
            return ConsortException.lost(String.valueOf(error.getMessage()), error);
        }
    }

    private synchronized void take(Wire.Frame frame, Connection connection, Link link, SessionFrames frames)
            throws IOException, ConsortException, InterruptedException {
        Wire.Fields fields = frame.fields();
        switch (frame.kind()) {
            case Wire.HEARTBEAT -> {
                fields.done("heartbeat");
                connection.onHeartbeat();
            }
            case Wire.PROGRESS -> {
                fields.u64();
                link.progress(fields.u64(), fields.u64());
                fields.done("progress");
            }
            case Wire.DISCONNECT ->
                throw ConsortException.disconnected(Wire.named(Reason.values(), fields.u8()), fields.text());
            default -> frames.take(frame);
        }
        machine.work();
        notifyAll();
        while (isFull() && end == null) {
            wait();
        }
    }

    private boolean isFull() {
        return machine.events().bytes() >= UNREAD_MAX;
    }

    private void write(Connection connection, Link link) {
        try {
            for (byte[] bytes = toWrite(link); bytes != null; bytes = toWrite(link)) {
                connection.write(bytes);
            }
        } catch (IOException | InterruptedException over) {
            // The daemon's last words may still be unread: they say more.
        }
    }

    /** What is to be written next; {@code null} once nothing is. */
    private synchronized byte[] toWrite(Link link) throws InterruptedException {
        while (machine.link() == link && end == null) {
            if (link.hasPending()) {
                return link.takePending();
            }
            wait();
        }
        return null;
    }

    /** Waits for the first daemon. */
    synchronized void awaitDaemon() throws ConsortException, InterruptedException {
        while (machine.link() == null) {
            checkEnd();
            wait();
        }
    }

    /** What the daemon said that there is; {@code null} while there is none. */
    synchronized Handshake.Welcome welcome() {
        Link link = end == null ? machine.link() : null;
        return link == null ? null : link.welcome();
    }

    synchronized Bookmark bookmark() {
        return machine.events().bookmark();
    }

    synchronized int unsettled() {
        return machine.pending().count();
    }

    String producer() {
        return machine.producer().toString();
    }

    /** Keeps a send as soon as there is room; returns its number. */
    synchronized long send(byte[] frame, int targets, int payload, Duration within)
            throws ConsortException, InterruptedException {
        long until = EventQueue.until(within);
        check();
        while (!machine.hasRoom(payload)) {
            waits(until, "earlier sends did not get their fates in the time allowed");
            check();
        }
        notifyAll();
        return machine.send(frame, targets, payload);
    }

    synchronized void join(String group, boolean closed) throws ConsortException {
        check();
        machine.join(group, closed);
        notifyAll();
    }

    synchronized void leave(String group) throws ConsortException {
        check();
        machine.leave(group);
        notifyAll();
    }

    synchronized void read(List<String> groups, ReadFrom from) throws ConsortException {
        check();
        machine.read(groups, from);
        notifyAll();
    }

    synchronized CompletableFuture<Fate> outcome(long send) {
        Fate fate = machine.events().takeFate(send);
        if (fate != null) {
            notifyAll();
            return CompletableFuture.completedFuture(fate);
        }
        if (!machine.pending().has(send)) {
            return CompletableFuture.failedFuture(ConsortException.invalid("send " + Long.toUnsignedString(send)
                    + ": no fate of this send is left to tell: it was told, or there is no such send"));
        }
        return end == null ? machine.events().await(send) : CompletableFuture.failedFuture(end.again());
    }

    /** Waits until all that was sent so far has its fate. */
    synchronized void settle(Duration within) throws ConsortException, InterruptedException {
        long until = EventQueue.until(within);
        long last = machine.pending().made();
        while (machine.pending().oldest() <= last) {
            checkEnd();
            waits(until, "not every send got its fate in the time allowed");
        }
    }

    /** The next event; {@code null} if none came in time. */
    synchronized SessionEvent receive(Duration within) throws ConsortException, InterruptedException {
        long until = EventQueue.until(within);
        while (true) {
            SessionEvent event = machine.events().pop();
            if (event != null) {
                notifyAll();
                return event;
            }
            checkEnd();
            if (!EventQueue.waits(this, until)) {
                return null;
            }
        }
    }

    private void waits(long until, String late) throws ConsortException, InterruptedException {
        if (isFull()) {
            throw ConsortException.of(Kind.UNREAD,
                    machine.events().bytes() + " bytes of events wait to be received; receive them first");
        }
        if (!EventQueue.waits(this, until)) {
            throw ConsortException.of(Kind.TIMED_OUT, late);
        }
    }

    private void check() throws ConsortException {
        if (isClosing) {
            throw closed();
        }
        checkEnd();
    }

    private void checkEnd() throws ConsortException {
        if (end != null) {
            throw end.again();
        }
    }

    /** Waits until each send has its fate, says good-bye, and ends. */
    void close(Duration within) throws ConsortException, InterruptedException {
        synchronized (this) {
            isClosing = true;
        }
        try {
            settle(within);
            leaveDaemon();
        } finally {
            stop();
        }
    }

    private synchronized void leaveDaemon() throws InterruptedException {
        Link link = machine.link();
        if (link == null || end != null) {
            return;
        }
        if (machine.isOpen()) {
            link.ask(new Wire.Request(Wire.FORGET).frame());
        }
        link.ask(new Wire.Request(Wire.GOODBYE).frame());
        notifyAll();
        long until = EventQueue.until(FAREWELL);
        while (end == null && machine.link() == link && EventQueue.waits(this, until)) {}
    }

    /** Ends it at once. */
    void stop() {
        finish(closed());
        thread.interrupt();
    }
}

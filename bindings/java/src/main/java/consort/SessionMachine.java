package consort;

import consort.ConsortException.Kind;
import consort.ConsortException.OpenRefusal;
import consort.Event.RefusalCause;
import consort.Fate.OrderedAt;
import consort.PendingSends.Pending;
import consort.SessionReading.NextStep;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * What a session decides: which daemon is next, what it is asked for, and what its answers mean. It has no socket and reads
 * no clock; times are nanoseconds of {@link System#nanoTime()}.
 */
final class SessionMachine {
    /** How long it waits before it tries the next daemon, at first and at most. */
    private static final long BACKOFF = 20_000_000;
    private static final long BACKOFF_MAX = 1_000_000_000;

    private final List<String> addresses;
    private final SessionOptions options;
    private final Producer producer;
    private final SessionQueue events = new SessionQueue();
    private final PendingSends pending = new PendingSends(events::tell);
    /** Groups that it is in, and whether each was joined as a closed one. */
    private final Map<String, Boolean> groups = new TreeMap<>();
    private SessionReading reading;
    /** How far the reading has come by what daemons told. The program may not have received all of it. */
    private final ReadingProgress reached = new ReadingProgress();
    private State state;
    /** Which address is next; counts on from round to round. */
    private long turn;
    /** The daemon at this address is to be asked next; {@code null} for the one whose turn it is. */
    private Integer asks;

    /** Whether there is a connection. */
    private sealed interface State {}

    /** There is none; the next attempt is made then. */
    private record Down(long next, Trying trying) implements State {}

    /** There is one. */
    private static final class Up implements State {
        /** What the daemon is still to be asked for. */
        private final ArrayDeque<Request> requests = new ArrayDeque<>();
        /** Readings that it was asked for and that are not over, in their order: what it tells is of the first. */
        private final ArrayDeque<SessionReading> asked = new ArrayDeque<>();
        /** Which group each request to join is for. */
        private final Map<Long, String> joins = new HashMap<>();
        private final Link link;
        /** Sends are numbered: the producer is open. */
        private boolean isOpen;
        /** The program was told of a gap here that no daemon could fill. */
        private boolean toldGap;
        /** Until this daemon has done something for the session. */
        private Trying trying;

        private Up(Link link, Trying trying) {
            this.link = link;
            this.trying = trying;
        }
    }

    /** Since when daemons are tried, and how long to wait before the next. */
    private record Trying(long since, long backoff) {
        /** Waits twice as long the next time. */
        Trying longer() {
            return new Trying(since, Math.min(2 * backoff, BACKOFF_MAX));
        }
    }

    /** What a daemon is to be asked for. False where there is no credit for it now. */
    private interface Request {
        boolean ask(Up up);
    }

    SessionMachine(List<String> addresses, SessionOptions options, long now) {
        this.addresses = addresses;
        this.options = options;
        this.producer = new Producer(options.producer());
        this.state = new Down(now, new Trying(now, BACKOFF));
    }

    Producer producer() {
        return producer;
    }

    SessionQueue events() {
        return events;
    }

    PendingSends pending() {
        return pending;
    }

    /** The connection there is; {@code null} for none. */
    Link link() {
        return state instanceof Up up ? up.link : null;
    }

    /** Whether the producer is open here, so that it can be forgotten. */
    boolean isOpen() {
        return state instanceof Up up && up.isOpen;
    }

    /** When the next connection is to be made, while there is none. */
    long nextAttempt() {
        return ((Down) state).next;
    }

    /** Where. */
    String address() {
        return addresses.get(at());
    }

    private int at() {
        return (int) (turn % addresses.size());
    }

    /** The attempt has brought a connection: it is asked for all there is. */
    void connected(Link link) {
        Up up = new Up(link, ((Down) state).trying);
        state = up;
        up.requests.add(this::open);
        groups.forEach((group, closed) -> up.requests.add(joining(group, closed)));
        if (reading != null) {
            up.requests.add(this::read);
        }
        events.push(new SessionEvent.Connected(address()));
        work();
    }

    /**
     * The attempt has failed.
     *
     * @throws ConsortException {@code INVALID}, which no daemon mends; {@code UNREACHABLE} if that was so for as long as is
     *     allowed
     */
    void failed(ConsortException why, long now) throws ConsortException {
        Trying trying = ((Down) state).trying;
        if (why.endsSession()) {
            throw why;
        }
        goOnTrying(trying, why, now);
        // All are tried before it waits for longer.
        boolean isRound = turnOn();
        Trying next = isRound ? trying.longer() : trying;
        state = new Down(isRound ? now + next.backoff : now, next);
    }

    /**
     * The connection is of no use any more. A daemon that lets this session in and then sends it away is as good as none.
     *
     * @throws ConsortException {@code UNREACHABLE} if no daemon was of use for as long as is allowed
     */
    void lost(ConsortException why, long now) throws ConsortException {
        keepReached();
        Trying before = ((Up) state).trying;
        Trying trying = before == null ? new Trying(now, BACKOFF) : before.longer();
        // One that is leaving may let the session in again until it has left.
        long least = why.isOfLeaving() ? BACKOFF : 0;
        state = new Down(now + (before == null ? least : before.backoff), trying);
        pending.disconnect();
        events.push(new SessionEvent.Lost(why.getMessage()));
        turnOn();
        goOnTrying(trying, why, now);
    }

    /** The next address is the one to be asked, or else the one behind. Whether all had their turn. */
    private boolean turnOn() {
        int at = at();
        int count = addresses.size();
        if (asks == null && reading != null && reading.isAsking()) {
            goOn(reading.noAnswer(at, count));
        }
        int steps = asks == null ? 1 : (asks + count - at) % count;
        asks = null;
        long before = turn;
        turn += steps;
        return turn / count > before / count;
    }

    private void goOnTrying(Trying trying, ConsortException last, long now) throws ConsortException {
        long within = Times.nanos(options.reconnectWithin());
        if (now - trying.since >= within) {
            String text = "no daemon could be reached within " + Times.words(options.reconnectWithin()) + ": ";
            throw ConsortException.of(Kind.UNREACHABLE, text + last.getMessage(), last);
        }
    }

    /** Whether a send of so many bytes may be kept now. */
    boolean hasRoom(int payload) {
        return pending.hasRoom(payload, options.unsettledMax());
    }

    /** Keeps a send; returns its number. */
    long send(byte[] frame, int targets, int payload) {
        long send = pending.push(frame, targets, payload);
        work();
        return send;
    }

    void join(String group, boolean closed) {
        groups.put(group, closed);
        request(joining(group, closed));
    }

    void leave(String group) {
        groups.remove(group);
        byte[] frame = new Wire.Request(Wire.LEAVE).name(group).frame();
        request(up -> up.link.send(frame) != 0);
    }

    void read(List<String> groups, ReadFrom from) {
        askReading(from);
        reading = new SessionReading(groups, from);
        request(this::read);
    }

    private void request(Request request) {
        if (state instanceof Up up) {
            up.requests.add(request);
            work();
        }
    }

    /** Asks the daemon for what it is to be asked for, and sends what waits, as far as there is credit. */
    void work() {
        if (!(state instanceof Up up)) {
            return;
        }
        while (!up.requests.isEmpty()) {
            if (!up.requests.peek().ask(up)) {
                return;
            }
            up.requests.remove();
        }
        while (up.isOpen && pending.nextUnsent() != null && sendNext(up.link)) {}
    }

    private boolean open(Up up) {
        up.link.ask(producer.opening());
        return true;
    }

    private static Request joining(String group, boolean closed) {
        byte[] frame = new Wire.Request(closed ? Wire.JOIN_CLOSED : Wire.JOIN).name(group).frame();
        return up -> {
            long request = up.link.send(frame);
            if (request != 0) {
                up.joins.put(request, group);
            }
            return request != 0;
        };
    }

    private boolean read(Up up) {
        if (!up.asked.contains(reading)) {
            askReading(reading.from());
            reached.ask(reading.from());
            up.asked.add(reading);
            up.link.ask(reading.asked());
        }
        return true;
    }

    /** What is told from here on is of a reading from there. */
    private void askReading(ReadFrom from) {
        events.push(null, progress -> progress.ask(from));
    }

    /** False where there is no credit for it now. */
    private boolean sendNext(Link link) {
        Pending next = pending.nextUnsent();
        Handshake.Welcome limits = link.welcome();
        if (next.payload > limits.messageMax()) {
            pending.refuseUnsent(new Fate.Refused(RefusalCause.TOO_LARGE,
                    "a message of " + next.payload + " bytes; this cluster allows " + limits.messageMax()));
            return true;
        }
        if (next.targets > limits.groupsMax()) {
            pending.refuseUnsent(new Fate.Refused(RefusalCause.TOO_MANY_TARGETS,
                    "a message to " + next.targets + " groups; name 1 to " + limits.groupsMax()));
            return true;
        }
        long request = link.send(next.frame);
        if (request != 0) {
            pending.sent(request);
        }
        return request != 0;
    }

    /** What a client is told, too. */
    void onEvent(Event event) throws ConsortException {
        if (event instanceof Event.Refused refused) {
            onRefused(refused);
        } else {
            events.push(event);
        }
    }

    private void onRefused(Event.Refused refused) throws ConsortException {
        PendingSends.RefusedAs as = pending.refuse(refused.send(), refused.cause(), refused.text());
        if (refused.cause() == RefusalCause.LEAVING) {
            // E13 of sessions.md.
            throw ConsortException.leaving(refused.text());
        }
        switch (as) {
            case FINAL, AGAIN -> onNumberingEnded();
            case TAKEN_OVER -> throw takenOver();
            case FOREIGN -> {
                String group = state instanceof Up up ? up.joins.remove(refused.send()) : null;
                if (group != null) {
                    events.push(new SessionEvent.JoinRefused(group, refused.cause(), refused.text()));
                } else if (refused.send() == 0) {
                    events.push(refused); // it was made to leave a group
                }
            }
        }
    }

    /** The producer is to be opened again at this daemon, unless that was asked for already. */
    void onNumberingEnded() {
        if (state instanceof Up up && up.isOpen) {
            up.isOpen = false;
            up.requests.add(this::open);
        }
    }

    void onOpened(long last, OrderedAt at, boolean forgotten) {
        pending.open(last, at, forgotten);
        if (producer.onOpened()) {
            events.push(new SessionEvent.Resumed(forgotten ? null : last));
        }
        if (state instanceof Up up) {
            up.isOpen = true;
            up.trying = null;
        }
    }

    void onSettled(long number, OrderedAt at) {
        pending.settle(number, at);
    }

    void onWaits(String text) {
        events.push(new SessionEvent.Waits(text));
        if (state instanceof Up up) {
            up.trying = null;
        }
    }

    void onNotOpened(OpenRefusal cause, String text) throws ConsortException {
        throw cause == OpenRefusal.FENCED ? takenOver() : ConsortException.notOpened(cause, text);
    }

    private static ConsortException takenOver() {
        return ConsortException.of(
                Kind.TAKEN_OVER, "another session sends as this one's producer; nothing more is sent here");
    }

    /** A reading goes on; with no event nothing is told but how far it has come. */
    void onReading(SessionEvent event, Consumer<ReadingProgress> mark) throws ConsortException {
        if (!isOfReading()) {
            events.push(event);
            return;
        }
        leaveForWhatIsLacking(event, (Up) state);
        if (event == null) {
            reading.enter(reached.place());
        } else if (event instanceof SessionEvent.ReadingBegan) {
            reading.begin();
        } else if (event instanceof SessionEvent.CaughtUp) {
            reading.catchUp(reached.place());
        } else if (event instanceof SessionEvent.Gap) {
            reading.skip();
        } else {
            reading.goOn();
        }
        mark.accept(reached);
        events.push(event, mark);
    }

    /** Others are asked before the program is told that something is missing, or that no more has come. */
    private void leaveForWhatIsLacking(SessionEvent event, Up up) throws ConsortException {
        // E30 of sessions.md.
        if (event instanceof SessionEvent.Gap gap) {
            // Where all have let go of what a slow program has yet to read, they soon have again.
            boolean isSlow = up.toldGap && gap.end().position() != 0;
            boolean mayAsk = gap.end().view() != null && reached.place() != null && !isSlow;
            asks = mayAsk ? reading.lacks(at(), gap.end(), addresses.size()) : null;
            up.toldGap = true;
        } else if (event instanceof SessionEvent.CaughtUp) {
            asks = reading.isBehind(at(), reached.place(), addresses.size());
        }
        if (asks != null) {
            throw lacking();
        }
    }

    private static ConsortException lacking() {
        return ConsortException.of(Kind.CONNECTION_LOST,
                "the daemon lacks what follows behind what was read; others are asked");
    }

    /** Whether what the daemon tells is of the reading that was asked for last, and not of one before. */
    private boolean isOfReading() {
        return reading != null && state instanceof Up up && up.asked.peek() == reading;
    }

    /** Wherever the reading goes on, it does so behind what has come. */
    private void keepReached() {
        Bookmark bookmark = reached.bookmark();
        if (isOfReading() && bookmark != null) {
            reading.reach(bookmark);
        }
    }

    /** There is no reading, or none any more. */
    void onReadingEnded(SessionEvent.ReadingEnded ended, Place common) throws ConsortException {
        boolean isOfReading = isOfReading();
        keepReached();
        if (state instanceof Up up) {
            up.asked.poll();
        }
        NextStep step = isOfReading ? behindEnd(ended.cause(), common) : new NextStep.Give();
        if (step instanceof NextStep.Give) {
            if (isOfReading) {
                reading.goOn();
            }
            events.push(ended);
            return;
        }
        goOn(step);
        if (asks != null && asks != at()) {
            throw ended.cause() == SessionEvent.EndCause.PARTED ? otherHistory() : lacking();
        }
        asks = null;
        request(this::read);
    }

    /** What follows where the daemon does not go on with what was read, or not for this client. */
    private NextStep behindEnd(SessionEvent.EndCause cause, Place common) {
        if (cause == SessionEvent.EndCause.PARTED) {
            return reading.isOther(at(), common, addresses.size());
        }
        // One that was asked because another one does not go on does not end the reading.
        return reading.isAsking() ? reading.noAnswer(at(), addresses.size()) : new NextStep.Give();
    }

    private static ConsortException otherHistory() {
        return ConsortException.of(Kind.CONNECTION_LOST,
                "the daemon was not there when what was read was ordered; others are asked");
    }

    /** Another daemon is asked; or the reading goes on where both histories are the same, or with the oldest there is. */
    private void goOn(NextStep step) {
        if (step instanceof NextStep.Ask ask) {
            asks = ask.at();
        } else if (step instanceof NextStep.Part part) {
            asks = part.common() == null ? null : part.at();
            events.push(new SessionEvent.Parted(part.common()));
            reading.part(part.common());
            askReading(reading.from());
        }
    }
}

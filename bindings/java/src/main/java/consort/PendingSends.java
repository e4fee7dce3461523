package consort;

import consort.Event.RefusalCause;
import consort.Fate.OrderedAt;
import java.util.List;
import java.util.TreeMap;
import java.util.function.BiConsumer;

/** Sends that have no fate yet: what they say, and under which number they went. */
final class PendingSends {
    /** What a send costs beside its payload, in bytes. */
    private static final int COST = 128;

    /** What a refusal means for the sends behind it. */
    enum RefusedAs {
        /** None of these sends. */
        FOREIGN,
        /** It has its fate; the producer must be opened again for those behind it. */
        FINAL,
        /** It may be sent again, once the producer was opened again. */
        AGAIN,
        /** Another session sends as this producer. */
        TAKEN_OVER;
    }

    /** A send without a fate. */
    static final class Pending {
        final long send;
        final byte[] frame;
        final int targets;
        final int payload;
        /** Under which number it went last; 0 where it is certain that it was not ordered under one. */
        private long number;
        /** Which request of the connection it is; 0 for none. */
        private long request;

        private Pending(long send, byte[] frame, int targets, int payload) {
            this.send = send;
            this.frame = frame;
            this.targets = targets;
            this.payload = payload;
        }

        private long cost() {
            return COST + (long) payload;
        }
    }

    private final BiConsumer<Long, Fate> tell;
    /** Those that went to the present daemon, by what the program calls them. */
    private final TreeMap<Long, Pending> underWay = new TreeMap<>();
    /** Those that did not; they come behind. */
    private final TreeMap<Long, Pending> unsent = new TreeMap<>();
    private long bytes;
    /** How many sends there were. */
    private long made;
    /** The number of the last that went under way. */
    private long numbered;

    /** @param tell is told the fate of each send, once */
    PendingSends(BiConsumer<Long, Fate> tell) {
        this.tell = tell;
    }

    /** Keeps a send; returns what it is called. */
    long push(byte[] frame, int targets, int payload) {
        made++;
        Pending pending = new Pending(made, frame, targets, payload);
        bytes += pending.cost();
        unsent.put(made, pending);
        return made;
    }

    /** Whether one of so many bytes may be kept, too. A large one may go alone. */
    boolean hasRoom(int payload, long most) {
        return isEmpty() || bytes + COST + payload <= most;
    }

    boolean isEmpty() {
        return count() == 0;
    }

    /** How many have no fate. */
    int count() {
        return underWay.size() + unsent.size();
    }

    /** How many sends there were. */
    long made() {
        return made;
    }

    /** The first that has no fate; behind all others where each has one. */
    long oldest() {
        long first = underWay.isEmpty() ? Long.MAX_VALUE : underWay.firstKey();
        return unsent.isEmpty() ? first : Math.min(first, unsent.firstKey());
    }

    /** Whether this one has no fate. */
    boolean has(long send) {
        return underWay.containsKey(send) || unsent.containsKey(send);
    }

    /** The next one to be sent; {@code null} for none. */
    Pending nextUnsent() {
        return unsent.isEmpty() ? null : unsent.firstEntry().getValue();
    }

    /** The next one went as this request. */
    void sent(long request) {
        Pending next = unsent.pollFirstEntry().getValue();
        numbered++;
        next.number = numbered;
        next.request = request;
        underWay.put(next.send, next);
    }

    /** The next one to be sent cannot be. */
    void refuseUnsent(Fate.Refused fate) {
        done(unsent.pollFirstEntry().getValue(), fate);
    }

    /** All up to a number are ordered, the last of them at a place. */
    void settle(long number, OrderedAt at) {
        while (!underWay.isEmpty()) {
            Pending first = underWay.firstEntry().getValue();
            if (first.number == 0 || Long.compareUnsigned(first.number, number) > 0) {
                return;
            }
            underWay.remove(first.send);
            // Those before the last of a batch stand at its place, too.
            done(first, new Fate.Ordered(at));
        }
    }

    /**
     * The producer was opened: what went under a number up to {@code last} is ordered, the rest is to be sent again. Where
     * all was forgotten nobody knows of those that were under way.
     */
    void open(long last, OrderedAt at, boolean forgotten) {
        // E06 of sessions.md.
        disconnect();
        for (Pending send : List.copyOf(unsent.values())) {
            if (send.number != 0 && (forgotten || Long.compareUnsigned(send.number, last) <= 0)) {
                unsent.remove(send.send);
                done(send, forgotten ? new Fate.Forgotten() : new Fate.Ordered(send.number == last ? at : null));
            }
            send.number = 0;
        }
        numbered = last;
    }

    /** A request was refused. */
    RefusedAs refuse(long request, RefusalCause cause, String text) {
        Pending refused = find(request);
        if (refused == null) {
            return RefusedAs.FOREIGN;
        }
        switch (cause) {
            case FENCED -> {
                return RefusedAs.TAKEN_OVER;
            }
            case MISSING, NOT_PRIMARY, FORGOTTEN, BUDGET, LEAVING -> {
                // It is certain that it was not ordered, and nothing behind it either.
                underWay.tailMap(refused.send, true).values().forEach(send -> send.number = 0);
                return RefusedAs.AGAIN;
            }
            default -> {
                underWay.remove(refused.send);
                done(refused, new Fate.Refused(cause, text));
                return RefusedAs.FINAL;
            }
        }
    }

    private Pending find(long request) {
        for (Pending send : underWay.values()) {
            if (send.request == request && request != 0) {
                return send;
            }
        }
        return null;
    }

    /** The connection is gone: its requests mean nothing any more. */
    void disconnect() {
        underWay.values().forEach(send -> send.request = 0);
        unsent.putAll(underWay);
        underWay.clear();
    }

    private void done(Pending send, Fate fate) {
        bytes -= send.cost();
        tell.accept(send.send, fate);
    }
}

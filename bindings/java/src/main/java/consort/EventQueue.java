package consort;

import java.time.Duration;
import java.util.ArrayDeque;

/** Events that wait to be received, up to a weight; with more, nothing is read. */
final class EventQueue {
    private static final long UNREAD_MAX = 64 << 20;

    private final ArrayDeque<Event> waiting = new ArrayDeque<>();
    private long unread;
    private ConsortException end;
    /** Nobody will receive any more. */
    private boolean left;

    /** When a time is over that begins now; 0 for never. */
    static long until(Duration within) {
        if (within == null) {
            return 0;
        }
        long until = System.nanoTime() + Times.nanos(within);
        return until == 0 ? 1 : until;
    }

    /** Waits for a change; false once the time is over. The caller holds the lock. */
    static boolean waits(Object lock, long until) throws InterruptedException {
        if (until == 0) {
            lock.wait();
            return true;
        }
        long left = until - System.nanoTime();
        if (left <= 0) {
            return false;
        }
        lock.wait(left / 1_000_000, (int) (left % 1_000_000));
        return true;
    }

    synchronized void put(Event event) throws InterruptedException {
        while (unread > UNREAD_MAX && !left) {
            wait();
        }
        if (!left) {
            waiting.add(event);
            unread += event.weight();
            notifyAll();
        }
    }

    /** The next one; nothing if none came in time. */
    synchronized Event take(Duration within) throws ConsortException, InterruptedException {
        long until = until(within);
        while (waiting.isEmpty()) {
            if (left) {
                throw ConsortException.of(ConsortException.Kind.CLOSED, "this client was closed; connect anew");
            }
            if (end != null) {
                throw end.again();
            }
            if (!waits(this, until)) {
                return null;
            }
        }
        Event event = waiting.remove();
        unread -= event.weight();
        notifyAll();
        return event;
    }

    synchronized void end(ConsortException why) {
        end = why;
        notifyAll();
    }

    synchronized void close() {
        left = true;
        waiting.clear();
        unread = 0;
        notifyAll();
    }
}

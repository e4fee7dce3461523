package consort;

import java.net.SocketTimeoutException;
import java.time.Duration;

/**
 * Finds out that nothing is heard any more of a daemon that promised to say something now and then.
 *
 * <p>Only the time in which it is read counts. Bytes wait in the socket for a program that does something else for long, so
 * the next read finds them; and a pause of this program, however long, counts as one step, for what was sent meanwhile may
 * be still on its way.
 */
final class Silence {
    private static final Duration LEAST = Duration.ofSeconds(1);
    private static final Duration MOST = Duration.ofHours(6);
    /** So many parts of the bound are waited for and looked at one by one. */
    private static final int STEPS = 8;
    /** So often in the time of a bound a daemon is to say that it is at work. */
    private static final int BEATS = 4;

    private final Duration bound;
    private final long step;
    /** The daemon has shown that it tells heartbeats. */
    private boolean isArmed;
    private boolean isOver;
    private long silent;
    /** Up to when the time is counted; nothing while nobody reads. */
    private Long counted;

    /** @param bound how long a daemon may be silent; {@code null} for ever */
    Silence(Duration bound) {
        this.bound = bound;
        this.step = bound == null ? 0 : bound.toNanos() / STEPS;
    }

    static void check(String option, Duration given) throws ConsortException {
        if (given == null || given.compareTo(LEAST) < 0 || given.compareTo(MOST) > 0) {
            String text = option + " is " + (given == null ? "null" : Times.words(given));
            throw ConsortException.invalid(text + "; give a time from " + Times.words(LEAST) + " to " + Times.words(MOST));
        }
    }

    /** How often a daemon is to tell that it is at work, in milliseconds; 0 where it need not. */
    long interval() {
        return bound == null ? 0 : bound.toMillis() / BEATS;
    }

    /** How long to wait between two looks, in nanoseconds. */
    long step() {
        return step;
    }

    /** Bytes are waited for from now on. */
    synchronized void onRead(long now) {
        counted = now;
    }

    /** Something came, or the end. */
    synchronized void onBytes() {
        counted = null;
        silent = 0;
    }

    /** The daemon says that it is at work: it will say so again. True for the first time, where silence has a bound. */
    synchronized boolean onHeartbeat() {
        boolean isFirst = !isArmed && bound != null;
        isArmed = true;
        return isFirst;
    }

    /** Looks whether nothing came for too long. */
    synchronized boolean isOver(long now) {
        if (counted != null) {
            silent += Math.min(now - counted, step);
            counted = now;
            // One more step would be beyond the bound.
            isOver = isOver || silent + step >= bound.toNanos();
        }
        return isOver;
    }

    /** What to tell in place of what became of a read: that it was silent for too long, if it was. */
    synchronized void tell() throws SocketTimeoutException {
        if (isOver) {
            throw new SocketTimeoutException(
                    "timed out: nothing was heard of the daemon or its machine for " + Times.words(bound));
        }
    }
}

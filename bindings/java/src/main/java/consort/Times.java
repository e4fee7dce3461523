package consort;

import java.time.Duration;
import java.util.Locale;

/** Times as programs give them. */
final class Times {
    /** Half of what the clock counts: longer is for ever. */
    private static final Duration MOST = Duration.ofNanos(Long.MAX_VALUE / 2);

    private Times() {}

    /** In nanoseconds, from 0 to 146 years. */
    static long nanos(Duration time) {
        if (time.isNegative()) {
            return 0;
        }
        return time.compareTo(MOST) > 0 ? MOST.toNanos() : time.toNanos();
    }

    /** {@code 2s}, {@code 1m30s}. */
    static String words(Duration time) {
        return time.toString().substring("PT".length()).toLowerCase(Locale.ROOT);
    }
}

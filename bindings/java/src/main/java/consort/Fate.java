package consort;

/** What became of a send of a session. Each send has one fate. */
public sealed interface Fate {
    /**
     * It is ordered, once, and stays so.
     *
     * @param at where; {@code null} where only a later send's place was learned, from another daemon: it stands before that
     */
    record Ordered(OrderedAt at) implements Fate {}

    /**
     * It is not ordered, and never will be.
     *
     * @param cause why, for programs
     * @param text why, for people
     */
    record Refused(Event.RefusalCause cause, String text) implements Fate {}

    /**
     * Nobody knows: it may be ordered or not. The daemons have forgotten the producer, because too many of them started anew
     * at a time, or because it sent nothing for longer than they remember: {@code producers_for}, an hour.
     */
    record Forgotten() implements Fate {}

    /**
     * Where a send is ordered. Later places are greater.
     *
     * @param view the number of the view
     * @param position the position in it
     */
    record OrderedAt(long view, long position) implements Comparable<OrderedAt> {
        @Override
        public int compareTo(OrderedAt other) {
            int views = Long.compareUnsigned(view, other.view);
            return views != 0 ? views : Long.compareUnsigned(position, other.position);
        }
    }
}

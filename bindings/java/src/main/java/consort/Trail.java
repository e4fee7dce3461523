package consort;

import consort.Event.DaemonId;
import consort.Event.ViewId;
import java.util.ArrayList;
import java.util.List;

/**
 * The views that a reader has read: by them a daemon tells whether it has the same history.
 *
 * @param view the one that it is in
 * @param closing how its daemon is closing that one; {@code null} while it is not
 * @param before those before, the oldest first
 */
record Trail(ViewId view, Closing closing, List<Left> before) {
    /** So many views before the present one are remembered. */
    private static final int MOST = 16;

    /** Up to where all members of a view that is closed have the same, and a number for those who close it together. */
    record Closing(long line, long together) {
        /** Reads it off a frame; {@code null} where the view is not being closed. */
        static Closing read(Wire.Fields fields) throws Wire.Malformed {
            return fields.flag("closing") ? new Closing(fields.u64(), fields.u64()) : null;
        }
    }

    /** A view that was left, and its line. */
    record Left(ViewId view, long line) {}

    /** A reader that begins in this view. */
    static Trail of(ViewId view) {
        return new Trail(view, null, List.of());
    }

    /** Its daemon has gone to the next view, and had closed the one before at this line; or closes the present one. */
    Trail enter(ViewId next, long line, Closing closing) {
        if (next.equals(view)) {
            return new Trail(view, closing, before);
        }
        List<Left> left = new ArrayList<>(before);
        left.add(new Left(view, line));
        return new Trail(next, closing, List.copyOf(left.subList(Math.max(left.size() - MOST, 0), left.size())));
    }

    /** Somebody who has yet to leave a view that was read. */
    Trail backTo(ViewId read) {
        return new Trail(read, null, before.subList(0, before.size() - depth(read)));
    }

    /** How many views ago that one was read: 0 for the present one, -1 where it was not. */
    int depth(ViewId read) {
        if (read.equals(view)) {
            return 0;
        }
        for (int back = 1; back <= before.size(); back++) {
            if (before.get(before.size() - back).view.equals(read)) {
                return back;
            }
        }
        return -1;
    }

    /** As it stands in a bookmark. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(written(view));
        if (closing != null) {
            text.append('!').append(Long.toUnsignedString(closing.line));
            text.append('/').append(Long.toUnsignedString(closing.together));
        }
        for (Left left : before) {
            text.append('+').append(written(left.view)).append('/').append(Long.toUnsignedString(left.line));
        }
        return text.toString();
    }

    private static String written(ViewId view) {
        DaemonId daemon = view.representative();
        return Long.toUnsignedString(view.number()) + "/" + daemon.node() + "/"
                + Long.toUnsignedString(daemon.incarnation());
    }

    /** Reads what {@link #toString()} wrote; {@code null} for any other text. */
    static Trail read(String text) {
        String[] parts = text.split("\\+", -1);
        String[] first = parts[0].split("!", -1);
        ViewId view = view(Numbers.between(first[0], 3));
        long[] closing = first.length == 2 ? Numbers.between(first[1], 2) : null;
        if (view == null || first.length > 2 || first.length == 2 && closing == null || parts.length - 1 > MOST) {
            return null;
        }
        List<Left> before = new ArrayList<>();
        for (String part : List.of(parts).subList(1, parts.length)) {
            long[] numbers = Numbers.between(part, 4);
            ViewId left = view(numbers);
            if (left == null) {
                return null;
            }
            before.add(new Left(left, numbers[3]));
        }
        return new Trail(view, closing == null ? null : new Closing(closing[0], closing[1]), List.copyOf(before));
    }

    private static ViewId view(long[] numbers) {
        boolean isOne = numbers != null && numbers[1] >= 0 && numbers[1] <= 0xffff;
        return isOne ? new ViewId(numbers[0], new DaemonId((int) numbers[1], numbers[2])) : null;
    }
}

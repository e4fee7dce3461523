package consort;

import java.util.Objects;

/**
 * How far a reading has come: with this it goes on later, at any daemon, in any language. Should the daemons have begun
 * another order meanwhile, or have another history, that is told.
 *
 * <p>As text, for a file: {@code 00000000deadbeef:1234}; where positions belong to views, with those behind it.
 */
public final class Bookmark {
    private final long order;
    private final Place next;
    private final Trail trail;

    /**
     * @param order names the order; 0 where positions belong to views
     * @param next the first place that was not read
     * @param trail the view that it belongs to, and those before; {@code null} where positions last
     */
    Bookmark(long order, Place next, Trail trail) {
        this.order = order;
        this.next = new Place(next.position(), next.index(), trail == null ? null : trail.view());
        this.trail = trail;
    }

    /**
     * Reads what {@link #toString()} wrote.
     *
     * @throws ConsortException {@code INVALID}
     */
    public static Bookmark parse(String text) throws ConsortException {
        int at = text.indexOf('@');
        String place = at < 0 ? text : text.substring(0, at);
        Trail trail = at < 0 ? null : Trail.read(text.substring(at + 1));
        boolean isOne = place.matches("[0-9a-fA-F]{16}:[0-9.]+") && (at < 0 || trail != null);
        Place next = isOne ? Place.read(place.substring(17)) : null;
        if (next == null) {
            throw ConsortException.invalid("`" + Names.shortened(text)
                    + "` is no bookmark; give one that a reading told, such as 00000000deadbeef:1234");
        }
        return new Bookmark(Long.parseUnsignedLong(place.substring(0, 16), 16), next, trail);
    }

    /** The first place that was not read. */
    public Place next() {
        return next;
    }

    Trail trail() {
        return trail;
    }

    /** Appends what asks a daemon to read on from here; the groups follow. */
    Wire.Request asked() {
        if (trail == null) {
            return ReadFrom.asked(order, next);
        }
        Wire.Request request = new Wire.Request(Wire.READ_ON).view(trail.view());
        request.number(next.position(), 8).number(next.index(), 2);
        Trail.Closing closing = trail.closing();
        request.number(closing == null ? 0 : 1, 1);
        if (closing != null) {
            request.number(closing.line(), 8).number(closing.together(), 8);
        }
        request.number(trail.before().size(), 2);
        for (Trail.Left left : trail.before()) {
            request.view(left.view()).number(left.line(), 8);
        }
        return request;
    }

    @Override
    public String toString() {
        String text = String.format("%016x:%s", order, next);
        return trail == null ? text : text + "@" + trail;
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Bookmark that
                && order == that.order && next.equals(that.next) && Objects.equals(trail, that.trail);
    }

    @Override
    public int hashCode() {
        return Objects.hash(order, next, trail);
    }
}

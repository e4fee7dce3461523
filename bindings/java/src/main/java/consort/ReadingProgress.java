package consort;

import consort.Event.ViewId;

/** How far a reading has come, by what was told of it. */
final class ReadingProgress {
    /** A reading has begun, and all before {@link #next} was told. */
    private boolean hasBegun;
    private long order;
    private Place next;
    private Trail trail;
    /** Where the reading was asked to go on, until it begins. */
    private Bookmark from;

    /** Another reading is asked for: what was reached says nothing any more. */
    void ask(ReadFrom asked) {
        hasBegun = false;
        from = asked instanceof ReadFrom.After after ? after.bookmark() : null;
    }

    void begin(long order, Place start) {
        hasBegun = true;
        this.order = order;
        next = start;
        trail = order == 0 && from != null ? from.trail() : null;
    }

    /** All before this place was told. */
    void reach(Place place) {
        if (hasBegun && place.isBehind(next)) {
            next = place;
        }
    }

    /** What follows is of this view, or this view is being closed. */
    void enter(ViewId view, long line, Trail.Closing closing) {
        if (!hasBegun) {
            return;
        }
        Trail before = trail == null ? Trail.of(view) : trail;
        if (!before.view().equals(view)) {
            next = Place.at(0);
        }
        trail = before.enter(view, line, closing);
    }

    /** What lies before this place cannot be told. */
    void skip(Place to, Trail.Closing closing) {
        enter(to.view(), line(), closing);
        reach(to);
    }

    /** Up to where all daemons surely have what was told of the view. */
    private long line() {
        if (!hasBegun) {
            return 0;
        }
        boolean isClosing = trail != null && trail.closing() != null;
        return isClosing ? Math.min(next.position(), trail.closing().line()) : next.position();
    }

    /** Where to read on; {@code null} while no reading has begun, or the one that has does not know its view yet. */
    Bookmark bookmark() {
        return hasBegun && (order != 0 || trail != null) ? new Bookmark(order, next, trail) : null;
    }

    /** The same in a view; {@code null} where positions last, too. */
    Place place() {
        return hasBegun && trail != null ? bookmark().next() : null;
    }

    /** The same, or where a reading that has yet to begin was asked to. */
    Bookmark bookmarkOrAsked() {
        Bookmark reached = bookmark();
        return reached == null ? from : reached;
    }
}

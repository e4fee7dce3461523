package consort;

/** Where a reading begins. */
public sealed interface ReadFrom {
    /** At the oldest message that there is, whichever that is. */
    ReadFrom START = new At(Place.at(0));
    /** With what comes; nothing from before. */
    ReadFrom NEW = new At(Place.at(-1));

    /**
     * At a place of whatever order the daemons keep. Where positions belong to views, no place means anything without its
     * view: read after a bookmark there.
     */
    record At(Place place) implements ReadFrom {}

    /** Behind the last message that was read before. */
    record After(Bookmark bookmark) implements ReadFrom {}

    /** At the first message of a position. */
    static ReadFrom at(long position) {
        return new At(Place.at(position));
    }

    /** Behind the last message that was read before. */
    static ReadFrom after(Bookmark bookmark) {
        return new After(bookmark);
    }

    /**
     * Reads {@code start}, {@code new}, a position, or a bookmark.
     *
     * @throws ConsortException {@code INVALID}
     */
    static ReadFrom parse(String text) throws ConsortException {
        if (text.equals("start")) {
            return START;
        }
        if (text.equals("new")) {
            return NEW;
        }
        if (text.contains(":")) {
            return after(Bookmark.parse(text));
        }
        Place place = Place.read(text);
        if (place == null) {
            throw ConsortException.invalid("`" + Names.shortened(text)
                    + "` is no place to read from; give \"start\", \"new\", a position or a bookmark");
        }
        return new At(place);
    }

    /** What asks for a place in an order that lasts, or in any with 0; the groups follow. */
    static Wire.Request asked(long order, Place place) {
        return new Wire.Request(Wire.READ).number(order, 8).number(place.position(), 8).number(place.index(), 2);
    }
}

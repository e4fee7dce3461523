package consort;

/**
 * Where a message stands in the order. Several that were ordered as one have one position, and are counted by the index.
 *
 * <p>As text: {@code 1234}, or {@code 1234.2}.
 *
 * @param position the position, from 1 on; the 64 bits of an unsigned number
 * @param index which of those that stand there, from 0 on
 * @param view the view that the position belongs to; {@code null} where positions last
 */
public record Place(long position, int index, Event.ViewId view) {
    private static final int INDEX_MAX = 0xffff;

    /** The first message at a position that lasts. */
    public static Place at(long position) {
        return new Place(position, 0, null);
    }

    /** Reads a position, or a position and an index; {@code null} where it is neither. */
    static Place read(String text) {
        int dot = text.indexOf('.');
        Long position = Numbers.read(dot < 0 ? text : text.substring(0, dot));
        Long index = dot < 0 ? Long.valueOf(0) : Numbers.read(text.substring(dot + 1));
        if (position == null || index == null || index < 0 || index > INDEX_MAX) {
            return null;
        }
        return new Place(position, index.intValue(), null);
    }

    /** What comes first behind a position. */
    static Place behind(long position) {
        return at(position == -1 ? -1 : position + 1);
    }

    /** Whether it stands behind that one, of the same view. */
    boolean isBehind(Place other) {
        int order = Long.compareUnsigned(position, other.position);
        return order > 0 || order == 0 && index > other.index;
    }

    @Override
    public String toString() {
        String at = Long.toUnsignedString(position);
        return index == 0 ? at : at + "." + index;
    }
}

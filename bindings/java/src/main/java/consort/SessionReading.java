package consort;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What a session reads, where it goes on, and when it believes that histories have parted. */
final class SessionReading {
    private final List<String> groups;
    private ReadFrom from;
    /**
     * Daemons that were not in the view that was read last, or say nothing, by the number of their address: up to where each
     * has what was read, {@code null} for nothing.
     */
    private final Map<Integer, Place> asked = new TreeMap<>();

    /** What follows where a daemon does not go on with the reading. */
    sealed interface NextStep {
        /** The daemon at this address may know better. */
        record Ask(int at) implements NextStep {}

        /** The histories have parted. If there is a place in common, the daemon at this address has it. */
        record Part(Place common, int at) implements NextStep {}
    }

    SessionReading(List<String> groups, ReadFrom from) {
        this.groups = groups;
        this.from = from;
    }

    /** Where the next connection begins. */
    ReadFrom from() {
        return from;
    }

    /** So far it has come. */
    void reach(Bookmark bookmark) {
        from = ReadFrom.after(bookmark);
    }

    /** A daemon goes on with it. */
    void begin() {
        asked.clear();
    }

    /** Some daemon did not know, and others are asked. */
    boolean isAsking() {
        return !asked.isEmpty();
    }

    /** The daemon at this address, of so many, has another history from here on. */
    NextStep isOther(int at, Place common, int addresses) {
        // E28 of sessions.md.
        if (common != null && depth(common) == 0) {
            return new NextStep.Part(common, at);
        }
        asked.put(at, common);
        return next(at, addresses);
    }

    /** The daemon at this address, of so many, gives no answer. */
    NextStep noAnswer(int at, int addresses) {
        asked.putIfAbsent(at, null);
        return next(at, addresses);
    }

    /** Goes on there, or with the oldest that there is. */
    void part(Place common) {
        from = common == null ? ReadFrom.START : ReadFrom.after(new Bookmark(0, common, Trail.of(common.view())));
        asked.clear();
    }

    private NextStep next(int at, int addresses) {
        for (int step = 1; step < addresses; step++) {
            int other = (at + step) % addresses;
            if (!asked.containsKey(other)) {
                return new NextStep.Ask(other);
            }
        }
        return latest();
    }

    /** The latest place that a daemon has in common with the reader. */
    private NextStep.Part latest() {
        NextStep.Part latest = new NextStep.Part(null, -1);
        for (Map.Entry<Integer, Place> answer : asked.entrySet()) {
            Place place = answer.getValue();
            if (place != null && (latest.common() == null || isLater(place, latest.common()))) {
                latest = new NextStep.Part(place, answer.getKey());
            }
        }
        return latest;
    }

    private boolean isLater(Place one, Place other) {
        int views = Integer.compare(depth(other), depth(one));
        return views > 0 || views == 0 && !other.isBehind(one);
    }

    /** How many views ago the place's view was read: 0 for the one that was read last. */
    private int depth(Place place) {
        Trail trail = from instanceof ReadFrom.After after ? after.bookmark().trail() : null;
        int depth = trail == null ? -1 : trail.depth(place.view());
        return depth < 0 ? Integer.MAX_VALUE : depth;
    }

    /** What asks a daemon for it. */
    byte[] asked() {
        Wire.Request request = from instanceof ReadFrom.At at
                ? ReadFrom.asked(0, at.place())
                : ((ReadFrom.After) from).bookmark().asked();
        request.number(groups.size(), 2);
        groups.forEach(request::name);
        return request.frame();
    }
}

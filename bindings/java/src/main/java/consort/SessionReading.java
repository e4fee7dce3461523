package consort;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a session reads, where it goes on, and when it believes that histories have parted, or that something is missing.
 */
final class SessionReading {
    private final List<String> groups;
    private ReadFrom from;
    /** Behind the last message, where other views were entered since: nothing was read there. */
    private Place readTo;
    /** What daemons said that do not go on with it, by the number of their address. */
    private final Map<Integer, Answer> answers = new TreeMap<>();
    /**
     * The number of the view in which a gap ends that is not told; 0 for none. Who has what is missing has come so far.
     */
    private long sought;

    /** What a daemon said that does not go on with a reading. */
    private sealed interface Answer {
        /** Nothing, or that it does not let this client read. */
        record None() implements Answer {}

        /** Its history is another one, as far as it can tell; up to there it has what was read, {@code null} for nothing. */
        record Other(Place common) implements Answer {}

        /** It lacks what follows, up to there. */
        record Lacks(Place to) implements Answer {}
    }

    /** What follows where a daemon does not go on with the reading. */
    sealed interface NextStep {
        /** The daemon at this address may know better, or lacks least. */
        record Ask(int at) implements NextStep {}

        /** The same daemon goes on where the reading begins now. */
        record Again() implements NextStep {}

        /** The histories have parted. If there is a place in common, the daemon at this address has it. */
        record Part(Place common, int at) implements NextStep {}

        /** No daemon has said anything of use. */
        record Give() implements NextStep {}
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

    /** A daemon goes on with it. It may yet say that something is missing, where that is why it was asked. */
    void begin() {
        if (sought == 0) {
            answers.clear();
        }
    }

    /** The program is told of a view, and had come as far as that before. */
    void enter(Place before) {
        if (readTo == null) {
            readTo = before;
        }
    }

    /** The program is told that it has all, and had come as far as that before. */
    void catchUp(Place before) {
        answers.clear();
        enter(before);
    }

    /** The program is told something else: a message, say. */
    void goOn() {
        answers.clear();
        readTo = null;
    }

    /** The program is told that something is missing. */
    void skip() {
        goOn();
        sought = 0;
    }

    /** Some daemon did not know, and others are asked. */
    boolean isAsking() {
        return !answers.isEmpty();
    }

    /** The daemon at this address, of so many, has another history from here on. */
    NextStep isOther(int at, Place common, int addresses) {
        // E31 of sessions.md.
        Bookmark before = common == null ? null : nothingReadBehind(common);
        if (before != null) {
            reach(before);
            return new NextStep.Again();
        }
        // E28 of sessions.md.
        if (common != null && depth(common) == 0 && sought == 0) {
            return new NextStep.Part(common, at);
        }
        answers.put(at, new Answer.Other(common));
        return next(at, addresses);
    }

    /** The daemon at this address, of so many, gives no answer. */
    NextStep noAnswer(int at, int addresses) {
        if (!(answers.get(at) instanceof Answer.Other)) {
            answers.put(at, new Answer.None());
        }
        return next(at, addresses);
    }

    /**
     * The daemon at this address, of so many, lacks what follows, up to this place. Which one is to be asked; {@code null}
     * where the program is to be told.
     */
    Integer lacks(int at, Place to, int addresses) {
        // E30 of sessions.md.
        sought = Long.compareUnsigned(to.view().number(), sought) > 0 ? to.view().number() : sought;
        boolean again = answers.put(at, new Answer.Lacks(to)) instanceof Answer.Lacks;
        return !again ? other(at, next(at, addresses)) : null;
    }

    /**
     * The daemon at this address, of so many, has told all that it has, up to this place. Which one is to be asked where
     * others have come further, {@code null} for none.
     */
    Integer isBehind(int at, Place arrived, int addresses) {
        // E30 of sessions.md.
        if (arrived != null && Long.compareUnsigned(arrived.view().number(), sought) < 0) {
            Integer other = other(at, noAnswer(at, addresses));
            if (other != null) {
                return other;
            }
        }
        sought = 0;
        return null;
    }

    /** Which other daemon is to be asked, if one is. */
    private static Integer other(int at, NextStep step) {
        return step instanceof NextStep.Ask ask && ask.at() != at ? ask.at() : null;
    }

    /** Goes on there, or with the oldest that there is. */
    void part(Place common) {
        from = common == null ? ReadFrom.START : ReadFrom.after(new Bookmark(0, common, Trail.of(common.view())));
        goOn();
        sought = 0;
    }

    private NextStep next(int at, int addresses) {
        for (int step = 1; step < addresses; step++) {
            int other = (at + step) % addresses;
            if (!answers.containsKey(other)) {
                return new NextStep.Ask(other);
            }
        }
        NextStep.Ask lacking = lacking();
        if (lacking != null) {
            return lacking;
        }
        if (answers.values().stream().anyMatch(answer -> answer instanceof Answer.Other)) {
            return latest();
        }
        answers.clear();
        sought = 0;
        return new NextStep.Give();
    }

    /** The daemon that lacks least; {@code null} where none has said so. */
    private NextStep.Ask lacking() {
        NextStep.Ask least = null;
        Place end = null;
        for (Map.Entry<Integer, Answer> answer : answers.entrySet()) {
            if (answer.getValue() instanceof Answer.Lacks lacks && (end == null || endsBefore(lacks.to(), end))) {
                least = new NextStep.Ask(answer.getKey());
                end = lacks.to();
            }
        }
        return least;
    }

    /** Whether a gap ends in an earlier view, or earlier in the same. */
    private static boolean endsBefore(Place end, Place other) {
        int views = Long.compareUnsigned(end.view().number(), other.view().number());
        return views < 0 || views == 0 && other.isBehind(end);
    }

    /** The latest place that a daemon has in common with the reader. */
    private NextStep.Part latest() {
        NextStep.Part latest = new NextStep.Part(null, -1);
        for (Map.Entry<Integer, Answer> answer : answers.entrySet()) {
            Place place = answer.getValue() instanceof Answer.Other other ? other.common() : null;
            if (place != null && (latest.common() == null || isLater(place, latest.common()))) {
                latest = new NextStep.Part(place, answer.getKey());
            }
        }
        return latest;
    }

    /** Where to go on from a place in common, if the reading came further, but no message stood there; or {@code null}. */
    private Bookmark nothingReadBehind(Place common) {
        Bookmark reached = from instanceof ReadFrom.After after ? after.bookmark() : null;
        if (readTo == null || reached == null || reached.trail() == null || reached.trail().depth(common.view()) < 0) {
            return null;
        }
        boolean isFurther = !isLater(common, reached.next());
        return isFurther && isLater(common, readTo) ? new Bookmark(0, common, reached.trail().backTo(common.view())) : null;
    }

    /** Whether a place was read no earlier than another one. */
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

package consort;

/**
 * What a {@link Session} receives: an {@link Event}, as a {@link Client} does, or what is told of the session, of its sends
 * and of what it reads.
 */
public sealed interface SessionEvent
        permits Event,
                SessionEvent.Sent,
                SessionEvent.JoinRefused,
                SessionEvent.Connected,
                SessionEvent.Lost,
                SessionEvent.Waits,
                SessionEvent.Resumed,
                SessionEvent.Read,
                SessionEvent.ReadingBegan,
                SessionEvent.CaughtUp,
                SessionEvent.Gap,
                SessionEvent.Parted,
                SessionEvent.ReadingEnded {
    /** How many bytes it counts for while it waits to be received. */
    default int weight() {
        return 0;
    }

    /** What became of a send: one for each, unless {@link Session#outcome} was asked for it. */
    record Sent(long send, Fate fate) implements SessionEvent {}

    /** A join was refused. */
    record JoinRefused(String group, Event.RefusalCause cause, String text) implements SessionEvent {}

    /**
     * The session is connected, at first or again. Groups were joined again: messages between the loss and the group's next
     * view are not received. What is read goes on where it was.
     */
    record Connected(String address) implements SessionEvent {}

    /** The connection was lost, or left for a daemon that may know what was read, or have what follows; others are tried. */
    record Lost(String text) implements SessionEvent {}

    /** Sends wait for what the text says. */
    record Waits(String text) implements SessionEvent {}

    /**
     * The session goes on with the producer that it was given.
     *
     * @param ordered how many of the producer's sends are ordered, over all its sessions; nothing of earlier sessions is
     *     ordered any more. {@code null} if nobody knows of it: it sent nothing before, or it was forgotten.
     */
    record Resumed(Long ordered) implements SessionEvent {}

    /**
     * The next message of a reading. Who is also a member of its group gets it as an {@link Event.Message}, too.
     *
     * @param message it, with its position
     * @param index which of those that stand at this position
     */
    record Read(Event.Message message, int index) implements SessionEvent {
        @Override
        public int weight() {
            return message.weight();
        }
    }

    /**
     * A reading begins: its messages follow.
     *
     * @param start the first place that is told
     * @param oldest the oldest position that the daemon can tell
     * @param newest the newest
     */
    record ReadingBegan(Place start, long oldest, long newest) implements SessionEvent {}

    /** All up to this position of the order was told; messages that follow are new. */
    record CaughtUp(long position) implements SessionEvent {}

    /**
     * The daemon does not have what stands from one place to another; that one is not included. It retains it no more, or was
     * cut off when others ordered it. No other daemon that was asked has it, or lacks less. The reading goes on there.
     */
    record Gap(Place start, Place end) implements SessionEvent {}

    /**
     * The daemons' history is another than the one that was read: behind a place that both have, or, where there is none, at
     * all. What was read behind it is not in theirs. The reading goes on there, or with the oldest that is retained.
     *
     * @param common the first place that they have not in common; {@code null} where they have none
     */
    record Parted(Place common) implements SessionEvent {}

    /**
     * A reading was refused, or is over.
     *
     * @param cause why, for programs
     * @param oldest the oldest position that the daemon can tell; 0 where it can tell none
     * @param newest the newest
     * @param text why, and what to do
     */
    record ReadingEnded(EndCause cause, long oldest, long newest, String text) implements SessionEvent {}

    /** Why there is no reading by position, or none any more. {@code UNKNOWN} is a cause of a later release. */
    enum EndCause {
        UNKNOWN,
        /** What was asked for is not retained any more. */
        TRIMMED,
        /** The order does not reach that far. */
        BEYOND_END,
        /** The daemon is configured to retain nothing, or too many groups are read. */
        UNSUPPORTED,
        /** A closed group that the client is not in. */
        CLOSED,
        /** What no group can be called. */
        BAD_GROUP,
        /** The place belongs to another order than the daemon's. */
        OTHER_ORDER,
        /** The session began another reading. */
        ENDED,
        /** The daemon's history is another; a session tells that as {@link Parted}. */
        PARTED,
        /** The rules do not let the client receive what is sent to a group. */
        DENIED;
    }
}

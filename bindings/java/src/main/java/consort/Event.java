package consort;

import java.util.List;

/** What happened, in the order in which it happened. */
public sealed interface Event extends SessionEvent {
    /**
     * The next message of the order for a group this client is in.
     *
     * @param service what its sender asked for
     * @param sender the sender's private name: a target for an answer
     * @param senderNode the node of the sender's daemon
     * @param senderNumber the sender's number there
     * @param to the groups and private names it was sent to
     * @param payload its bytes, which are the receiver's to change
     * @param position where it stands in the order; 0 where that was not asked for
     * @param incarnation which incarnation of its node the sender is connected to; 0 likewise
     */
    record Message(
            Service service,
            String sender,
            int senderNode,
            long senderNumber,
            List<String> to,
            byte[] payload,
            long position,
            long incarnation)
            implements Event {
        @Override
        public int weight() {
            return payload.length;
        }
    }

    /**
     * A group this client is in changed, here in the order.
     *
     * @param group which
     * @param id the name of this membership
     * @param closed whether only members may send to it
     * @param primary whether the members may act as the primary part of the network
     * @param cause why it changed
     * @param changed those that came or went: who of them is a member came
     * @param members all members
     */
    record GroupView(
            String group,
            GroupViewId id,
            boolean closed,
            Primary primary,
            Cause cause,
            List<Member> changed,
            List<Member> members)
            implements Event {
        @Override
        public int weight() {
            return 64 * members.size();
        }
    }

    /** Some members of a group do not move along into the next view. */
    record GroupSignal(String group, GroupViewId id) implements Event {
        @Override
        public int weight() {
            return 64;
        }
    }

    /**
     * The network changed, here in the order.
     *
     * @param id which view
     * @param transitional whether it only closes the view before it
     * @param primary whether its members may act as the primary part of the network
     * @param members its members
     * @param movedTogether those that came along from this daemon's view before
     * @param text why, for people
     */
    record View(
            ViewId id, boolean transitional, Primary primary, List<DaemonId> members, List<DaemonId> movedTogether, String text)
            implements Event {
        @Override
        public int weight() {
            return 32 * members.size();
        }
    }

    /**
     * One send was not taken, or changed nothing. With 0 as its number and {@link RefusalCause#DENIED} the rules have
     * changed: this client is made to leave a group, as the group's next view shows. With {@link RefusalCause#DEMOTED} it
     * is made to because it does not read.
     *
     * @param send its number
     * @param cause why, for programs
     * @param text why, for people
     */
    record Refused(long send, RefusalCause cause, String text) implements Event {
        @Override
        public int weight() {
            return text.length();
        }
    }

    /** One incarnation of one node. */
    record DaemonId(int node, long incarnation) {}

    /** Names a view. Compare for equality only. */
    record ViewId(long number, DaemonId representative) {}

    /** Names a membership of a group. Compare for equality only. */
    record GroupViewId(ViewId view, long change) {}

    /**
     * A client in a group.
     *
     * @param daemon its daemon
     * @param number its number there
     * @param name its name there
     * @param set the same for members that moved together: they received the same messages since the group view before
     */
    record Member(DaemonId daemon, long number, String name, int set) {
        /** The name by which it is sent to alone. */
        public String privateName() {
            return Names.privateName(name, daemon.node());
        }
    }

    /** Why a group changed. {@code UNKNOWN} is a cause of a later release. */
    enum Cause {
        UNKNOWN,
        JOIN,
        LEAVE,
        /** A client's connection to its daemon ended. */
        DISCONNECT,
        /** Daemons went or came, and their clients with them. */
        NETWORK,
        /** Nobody came or went: the members have become the primary part, or are it no more. */
        PRIMARY;
    }

    /** Whether members may act as the primary part of the network. */
    enum Primary {
        UNKNOWN,
        YES,
        PENDING,
        NO,
        /** No policy is configured: it is not asked. */
        NO_POLICY;
    }

    /** Why a send was refused. */
    enum RefusalCause {
        UNKNOWN,
        BUDGET,
        TOO_LARGE,
        TOO_MANY_TARGETS,
        LEAVING,
        UNSUPPORTED,
        ALREADY_MEMBER,
        NOT_MEMBER,
        TOO_MANY_GROUPS,
        CLOSED,
        GROUPS_FULL,
        NOT_REPRESENTABLE,
        NOT_PRIMARY,
        MISSING,
        FENCED,
        FORGOTTEN,
        /** The rules do not let the client do it. */
        DENIED,
        /** The client does not read, and was made to leave the group. */
        DEMOTED,
        /** A message to groups of rings that no ring covers together. */
        ACROSS_RINGS;
    }
}

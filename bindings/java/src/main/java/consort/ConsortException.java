package consort;

import javax.net.ssl.SSLException;

/** Why something was not done, or a session is over. */
public final class ConsortException extends Exception {
    private static final long serialVersionUID = 1;

    /** What it is, for programs. */
    public enum Kind {
        /** An argument is no name, no address or no service. Nothing was done. */
        INVALID,
        /** Nothing answers there, or only a daemon of another user, which is shown no token. */
        CANNOT_CONNECT,
        /** Something answers there, but not as a daemon does. */
        NO_DAEMON,
        /** The daemon refused the session: {@link #reason()}. */
        NOT_WELCOME,
        /** The daemon ended the session: {@link #reason()}, {@link #unknownFate()}. */
        DISCONNECTED,
        /** The connection to the daemon broke, or the daemon fell silent: {@link #unknownFate()}. */
        CONNECTION_LOST,
        /** The client was closed. */
        CLOSED,
        /** The payload is larger than this cluster allows. It was not sent. */
        TOO_LARGE,
        /** To no group, or to more than a message may name. It was not sent. */
        TARGETS,
        /** The time allowed was not enough. Nothing was sent. */
        TIMED_OUT,
        /** So much waits to be received that nothing more is read: receive it first. Nothing was sent. */
        UNREAD,
        /** No daemon could be reached for as long as a session may try. The session is over. */
        UNREACHABLE,
        /** Another session sends as this one's producer. This session is over. */
        TAKEN_OVER,
        /** The daemons cannot keep account of what a session sends: {@link #openRefusal()}. The session is over. */
        NOT_OPENED;
    }

    /** Why a session ended. {@code UNKNOWN} is a reason of a later release. */
    public enum Reason {
        UNKNOWN,
        GOODBYE,
        MALFORMED,
        VERSION,
        SILENT,
        SLOW,
        STOPPING,
        NAME_TAKEN,
        NOT_ALLOWED,
        TOO_MANY_CLIENTS,
        RESTARTING,
        SPOOL_FAILED,
        /** The rules do not let the client be called so, or have one more connection. */
        DENIED,
        /** The client has to prove who it is, and has not. */
        UNPROVEN,
        TOKEN_MALFORMED,
        TOKEN_UNKNOWN,
        TOKEN_EXPIRED;
    }

    /** Why daemons do not keep account of what a session sends. {@code UNKNOWN} is a cause of a later release. */
    public enum OpenRefusal {
        UNKNOWN,
        /** No policy says which part of a parted network goes on. */
        NO_POLICY,
        /** As many producers are known as there may be. */
        FULL,
        /** The daemon is leaving; a session then goes on at another. */
        LEAVING,
        /** Another session goes on with the producer. */
        FENCED;
    }

    /** The sends that may be ordered still, or never: so many from that number on. */
    public record UnknownFate(long first, long count) {
        @Override
        public String toString() {
            if (count == 0) {
                return "there is no send of unknown fate";
            }
            return count == 1
                    ? "the fate of send " + first + " is unknown"
                    : "the fate of sends " + first + " to " + (first + count - 1) + " is unknown";
        }
    }

    private final Kind kind;
    private final transient Reason reason;
    private final transient UnknownFate unknownFate;
    private final transient OpenRefusal openRefusal;

    private ConsortException(Kind kind, Reason reason, UnknownFate unknownFate, String text, Throwable cause) {
        this(kind, reason, unknownFate, OpenRefusal.UNKNOWN, text, cause);
    }

    private ConsortException(
            Kind kind, Reason reason, UnknownFate unknownFate, OpenRefusal openRefusal, String text, Throwable cause) {
        super(text, cause);
        this.kind = kind;
        this.reason = reason;
        this.unknownFate = unknownFate;
        this.openRefusal = openRefusal;
    }

    static ConsortException of(Kind kind, String text) {
        return of(kind, text, null);
    }

    static ConsortException of(Kind kind, String text, Throwable cause) {
        return new ConsortException(kind, Reason.UNKNOWN, new UnknownFate(1, 0), text, cause);
    }

    static ConsortException invalid(String text) {
        return of(Kind.INVALID, text);
    }

    static ConsortException cannotConnect(String address, Throwable cause) {
        String text = cause instanceof SSLException
                ? "cannot connect to " + address + " by TLS: " + cause.getMessage()
                : "cannot connect to " + address + ": " + cause.getMessage() + "; is a daemon running there?";
        return new ConsortException(Kind.CANNOT_CONNECT, Reason.UNKNOWN, new UnknownFate(1, 0), text, cause);
    }

    /** A daemon of another user, who may have put the socket there to be shown a token. */
    static ConsortException untrusted(String address, String user) {
        return of(Kind.CANNOT_CONNECT, "no token is shown to the daemon at " + address + ": it runs as user " + user
                + ", which is neither this user nor root, nor the only one who may write to the socket's directory");
    }

    static ConsortException notWelcome(Reason reason, String said) {
        String text = "the daemon refused the session: " + said;
        return new ConsortException(Kind.NOT_WELCOME, reason, new UnknownFate(1, 0), text, null);
    }

    static ConsortException disconnected(Reason reason, String said, UnknownFate fate) {
        String text = "the daemon ended the session: " + said + "; " + fate;
        return new ConsortException(Kind.DISCONNECTED, reason, fate, text, null);
    }

    static ConsortException lost(String why, UnknownFate fate, Throwable cause) {
        String text = "the connection to the daemon was lost (" + why + "); " + fate;
        return new ConsortException(Kind.CONNECTION_LOST, Reason.UNKNOWN, fate, text, cause);
    }

    /** The same of a session, which knows the fates. */
    static ConsortException disconnected(Reason reason, String said) {
        String text = "the daemon ended the session: " + said;
        return new ConsortException(Kind.DISCONNECTED, reason, new UnknownFate(1, 0), text, null);
    }

    /** The same of a session, which knows the fates. */
    static ConsortException lost(String why, Throwable cause) {
        return of(Kind.CONNECTION_LOST, "the connection to the daemon was lost (" + why + ")", cause);
    }

    /** A daemon takes no more. A session goes on at the next. */
    static ConsortException leaving(String said) {
        String text = "the daemon is leaving and takes no more: " + said;
        UnknownFate none = new UnknownFate(1, 0);
        return new ConsortException(Kind.CONNECTION_LOST, Reason.UNKNOWN, none, OpenRefusal.LEAVING, text, null);
    }

    static ConsortException notOpened(OpenRefusal cause, String said) {
        String text = "the daemons cannot keep account of what this session sends: " + said;
        return new ConsortException(Kind.NOT_OPENED, Reason.UNKNOWN, new UnknownFate(1, 0), cause, text, null);
    }

    /** The same for another caller, whose stack it then shows. */
    ConsortException again() {
        return new ConsortException(kind, reason, unknownFate, openRefusal, getMessage(), this);
    }

    /** Whether no other daemon mends it: the session over several daemons is over, too. */
    boolean endsSession() {
        return switch (kind) {
            case INVALID, UNREACHABLE, TAKEN_OVER -> true;
            case NOT_OPENED -> openRefusal != OpenRefusal.LEAVING;
            default -> false;
        };
    }

    /** Whether the daemon takes no more, because it is leaving. */
    boolean isOfLeaving() {
        return openRefusal == OpenRefusal.LEAVING;
    }

    /** Whether a daemon that knows no heartbeats says so to a client that wants them. */
    boolean isOfAnEarlierRelease() {
        return kind == Kind.NOT_WELCOME && reason == Reason.MALFORMED;
    }

    /** What it is, for programs. */
    public Kind kind() {
        return kind;
    }

    /** The daemon's reason, where it gave one. */
    public Reason reason() {
        return reason;
    }

    /** Why daemons keep no account, where the kind is {@code NOT_OPENED}. */
    public OpenRefusal openRefusal() {
        return openRefusal;
    }

    /** The sends whose fate the session's end leaves unknown. */
    public UnknownFate unknownFate() {
        return unknownFate;
    }
}

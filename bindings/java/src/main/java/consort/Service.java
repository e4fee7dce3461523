package consort;

/** What a sender asks for one message. */
public enum Service {
    /** Delivered to all members that stay. */
    RELIABLE(1),
    /** Behind the sender's earlier ones. */
    FIFO(2),
    /** Behind all that the sender had received or sent before. */
    CAUSAL(3),
    /** In one total order at all members. */
    AGREED(4),
    /** Agreed, and delivered only once every member of the view is known to hold it. */
    SAFE(5);

    final int number;

    Service(int number) {
        this.number = number;
    }

    static Service of(int number) {
        return number >= 1 && number <= 5 ? values()[number - 1] : null;
    }
}

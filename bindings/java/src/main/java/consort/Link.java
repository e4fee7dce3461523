package consort;

import java.io.ByteArrayOutputStream;

/** What a session has yet to write to its daemon, and how much it may. */
final class Link {
    private final Handshake.Welcome welcome;
    private ByteArrayOutputStream pending = new ByteArrayOutputStream();
    private long sent;
    private long spent;
    private long credit;

    Link(Handshake.Welcome welcome) {
        this.welcome = welcome;
    }

    Handshake.Welcome welcome() {
        return welcome;
    }

    /** A request that is not numbered, and needs no credit. */
    void ask(byte[] frame) {
        pending.writeBytes(frame);
    }

    /** A numbered request. Returns its number; 0 where there is no credit for it now. */
    long send(byte[] frame) {
        long underWay = spent - credit;
        if (underWay != 0 && underWay + frame.length > welcome.creditMax()) {
            return 0;
        }
        sent++;
        spent += frame.length;
        pending.writeBytes(frame);
        return sent;
    }

    /** The daemon tells what came of numbered requests. */
    void progress(long ordered, long credit) throws Wire.Malformed {
        if (Long.compareUnsigned(ordered, sent) > 0 || Long.compareUnsigned(credit, spent) > 0) {
            throw new Wire.Malformed("progress beyond what was sent");
        }
        this.credit = credit;
    }

    boolean hasPending() {
        return pending.size() > 0;
    }

    /** All that is to be written now. */
    byte[] takePending() {
        byte[] bytes = pending.toByteArray();
        pending = new ByteArrayOutputStream();
        return bytes;
    }
}

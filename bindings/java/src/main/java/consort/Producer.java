package consort;

import java.security.SecureRandom;
import java.util.HexFormat;

/** Whose sends those of a session are. */
final class Producer {
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int LENGTH = 16;

    private final byte[] id;
    /** A number of the session's own, by which daemons tell its openings from those of others. */
    private final long session = RANDOM.nextLong();
    /** How often it has asked for the producer to be opened. */
    private long attempts;
    /** It was opened before, by this session or an earlier one. */
    private boolean isKnown;
    /** The last of these times of which this session was told that it is open; 0 for none. */
    private long opened;
    /** Another session opened it, and what that one sent was not told yet. */
    private boolean resumes;

    /** @param written another session's; empty for a new one */
    Producer(String written) {
        isKnown = !written.isEmpty();
        resumes = isKnown;
        if (isKnown) {
            id = HexFormat.of().parseHex(written);
        } else {
            id = new byte[LENGTH];
            RANDOM.nextBytes(id);
        }
    }

    /** What asks for it to be opened. */
    byte[] opening() {
        attempts++;
        Wire.Request request = new Wire.Request(Wire.OPEN).bytes(id).number(session, 8).number(attempts, 8);
        return request.number(opened, 8).number(isKnown ? 1 : 0, 1).frame();
    }

    /** It is open. Whether that is the first this session hears of what another one sent. */
    boolean onOpened() {
        boolean hasResumed = resumes;
        isKnown = true;
        opened = attempts;
        resumes = false;
        return hasResumed;
    }

    @Override
    public String toString() {
        return HexFormat.of().formatHex(id);
    }
}

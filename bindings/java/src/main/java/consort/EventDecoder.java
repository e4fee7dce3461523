package consort;

import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Makes events of one connection's frames. */
final class EventDecoder {
    /** Which incarnation of each node senders are connected to. */
    private final Map<Integer, Long> incarnations = new HashMap<>();

    /** The events of a frame: several where it is a batch, none where nobody has asked for it. */
    List<Event> events(Wire.Frame frame) throws IOException {
        Wire.Fields fields = frame.fields();
        switch (frame.kind()) {
            case Wire.INCARNATION -> {
                incarnations.put(fields.u16(), fields.u64());
                fields.done("incarnation");
                return List.of();
            }
            case Wire.REFUSED -> {
                long send = fields.u64();
                Event.RefusalCause cause = Wire.named(Event.RefusalCause.values(), fields.u8());
                return done(new Event.Refused(send, cause, fields.text()), fields, "refusal");
            }
            case Wire.VIEW -> {
                return done(fields.networkView(), fields, "view");
            }
            case Wire.GROUP_VIEW -> {
                return done(fields.groupView(), fields, "group view");
            }
            case Wire.SIGNAL -> {
                return done(new Event.GroupSignal(fields.name(), fields.groupViewId()), fields, "transitional signal");
            }
            default -> {
                return messages(frame.kind(), fields);
            }
        }
    }

    private static List<Event> done(Event event, Wire.Fields fields, String what) throws IOException {
        fields.done(what);
        return List.of(event);
    }

    /** A message or a batch. */
    private List<Event> messages(int kind, Wire.Fields fields) throws IOException {
        int family = kind & 0xf0;
        boolean isBatch = family == Wire.BATCH || family == Wire.PLACED_BATCH;
        boolean isPlaced = family == Wire.PLACED || family == Wire.PLACED_BATCH;
        Service service = Service.of(kind & 0x0f);
        if (service == null || !isBatch && !isPlaced && family != Wire.MESSAGE) {
            return List.of();
        }
        long position = isPlaced ? fields.u64() : 0;
        if (family == Wire.PLACED_BATCH) {
            fields.u16();
        }
        return List.copyOf(placed(fields, service, isBatch, position, isPlaced));
    }

    /** Messages at a position, whose senders' incarnations are known. */
    List<Event.Message> placed(Wire.Fields fields, Service service, boolean isBatch, long position, boolean isPlaced)
            throws IOException {
        List<Event.Message> messages =
                fields.messages(service, isBatch, position, node -> isPlaced ? incarnations.getOrDefault((int) node, 0L) : 0);
        fields.done("message");
        return messages;
    }
}

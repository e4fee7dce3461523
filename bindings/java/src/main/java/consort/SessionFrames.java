package consort;

import consort.ConsortException.OpenRefusal;
import consort.Event.ViewId;
import consort.Fate.OrderedAt;
import consort.SessionEvent.EndCause;
import java.io.IOException;
import java.util.List;

/** Tells a session what its daemon says, frame by frame. */
final class SessionFrames {
    /** For what openings wait, by number. */
    private static final String[] WAITS = {
        "the daemons are not ready",
        "the daemons agree on who is there",
        "this daemon is not in the primary part of the network",
        "too many daemons have started anew; a majority that remembers is needed, or all of them",
    };

    private final SessionMachine machine;
    private final EventDecoder decoder = new EventDecoder();

    SessionFrames(SessionMachine machine) {
        this.machine = machine;
    }

    void take(Wire.Frame frame) throws IOException, ConsortException {
        if (!takeOfProducer(frame) && !takeOfReading(frame)) {
            for (Event event : decoder.events(frame)) {
                machine.onEvent(event);
            }
        }
    }

    /** False where it is another frame. */
    private boolean takeOfProducer(Wire.Frame frame) throws IOException, ConsortException {
        Wire.Fields fields = frame.fields();
        switch (frame.kind()) {
            case Wire.OPENED -> {
                long last = fields.u64();
                OrderedAt at = new OrderedAt(fields.u64(), fields.u64());
                boolean forgotten = fields.flag("opened");
                fields.done("opened");
                machine.onOpened(last, at, forgotten);
            }
            case Wire.SETTLED -> {
                long number = fields.u64();
                OrderedAt at = new OrderedAt(fields.u64(), fields.u64());
                fields.done("settled");
                machine.onSettled(number, at);
            }
            case Wire.NUMBERING_ENDED -> {
                fields.done("numbering ended");
                machine.onNumberingEnded();
            }
            case Wire.WAITS -> {
                String text = Wire.named(WAITS, fields.u8());
                fields.done("waits");
                machine.onWaits(text);
            }
            case Wire.NOT_OPENED -> {
                OpenRefusal cause = Wire.named(OpenRefusal.values(), fields.u8());
                String text = fields.text();
                fields.done("not opened");
                machine.onNotOpened(cause, text);
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    /** False where it is another frame. */
    private boolean takeOfReading(Wire.Frame frame) throws IOException, ConsortException {
        Wire.Fields fields = frame.fields();
        switch (frame.kind()) {
            case Wire.BEGAN -> {
                long order = fields.u64();
                Place start = new Place(fields.u64(), fields.u16(), null);
                SessionEvent began = new SessionEvent.ReadingBegan(start, fields.u64(), fields.u64());
                fields.done("reading began");
                machine.onReading(began, progress -> progress.begin(order, start));
            }
            case Wire.CAUGHT_UP -> {
                long position = fields.u64();
                fields.done("caught up");
                machine.onReading(new SessionEvent.CaughtUp(position), progress -> progress.reach(Place.behind(position)));
            }
            case Wire.LOST -> {
                Place start = Place.at(fields.u64());
                Place end = Place.behind(fields.u64());
                fields.done("lost");
                machine.onReading(new SessionEvent.Gap(start, end), progress -> progress.reach(end));
            }
            case Wire.IN_VIEW -> {
                ViewId view = fields.view();
                long line = fields.u64();
                Trail.Closing closing = Trail.Closing.read(fields);
                fields.done("in view");
                machine.onReading(null, progress -> progress.enter(view, line, closing));
            }
            case Wire.GAP -> {
                Place start = fields.viewPlace();
                Place end = fields.viewPlace();
                Trail.Closing closing = Trail.Closing.read(fields);
                fields.done("gap");
                machine.onReading(new SessionEvent.Gap(start, end), progress -> progress.skip(end, closing));
            }
            case Wire.NO_READING -> takeEnd(fields);
            default -> {
                return takeMessages(frame.kind(), fields);
            }
        }
        return true;
    }

    private void takeEnd(Wire.Fields fields) throws IOException, ConsortException {
        EndCause cause = Wire.named(EndCause.values(), fields.u8());
        SessionEvent.ReadingEnded ended =
                new SessionEvent.ReadingEnded(cause, fields.u64(), fields.u64(), fields.text());
        Place common = cause == EndCause.PARTED && fields.flag("common") ? fields.viewPlace() : null;
        fields.done("no reading");
        machine.onReadingEnded(ended, common);
    }

    /** A message that is read, or a batch. */
    private boolean takeMessages(int kind, Wire.Fields fields) throws IOException, ConsortException {
        int family = kind & 0xf0;
        Service service = Service.of(kind & 0x0f);
        if (service == null || family != Wire.READ_MESSAGE && family != Wire.READ_BATCH) {
            return false;
        }
        boolean isBatch = family == Wire.READ_BATCH;
        long position = fields.u64();
        int first = isBatch ? fields.u16() : 0;
        List<Event.Message> messages = decoder.placed(fields, service, isBatch, position, true);
        for (int at = 0; at < messages.size(); at++) {
            int index = first + at;
            boolean isLast = at == messages.size() - 1;
            Place next = isLast ? Place.behind(position) : new Place(position, index + 1, null);
            machine.onReading(new SessionEvent.Read(messages.get(at), index), progress -> progress.reach(next));
        }
        return true;
    }
}

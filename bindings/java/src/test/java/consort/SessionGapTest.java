package consort;

import static consort.ClientTest.check;
import static consort.SessionReadingTest.inView;
import static consort.SessionReadingTest.place;
import static consort.SessionReadingTest.view;

import consort.ConsortException.Kind;
import consort.Event.DaemonId;
import consort.FakeDaemon.Talk;
import consort.SessionEvent.EndCause;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Tests of what only some daemons have, without a socket or a clock: run by {@link ClientTest}. */
final class SessionGapTest {
    private static final Handshake.Welcome WELCOME =
            new Handshake.Welcome(new DaemonId(1, 101), "bob", 16 << 20, 256 << 10, 1000);

    private SessionGapTest() {}

    static void runAll() throws Exception {
        ClientTest.run("a gap of a replaced reading is told and moves nothing", SessionGapTest::replaced);
        ClientTest.run("what one daemon lacks is read at another", SessionGapTest::elsewhere);
        ClientTest.run("what all lack is told where least is lacking", SessionGapTest::leastIsLacking);
        ClientTest.run("the last one asked tells at once if it lacks no more than others", SessionGapTest::lastOne);
        ClientTest.run("daemons that lack ever more are asked once", SessionGapTest::everMore);
        ClientTest.run("who read nothing in a view of its own goes on from the view before", SessionGapTest::nothingRead);
        ClientTest.run("who read something in a view of its own is told the gap", SessionGapTest::somethingRead);
        ClientTest.run("who read more than is in common is told the gap", SessionGapTest::moreThanInCommon);
        ClientTest.run("one that closed the view otherwise is no reason to part", SessionGapTest::closedOtherwise);
        ClientTest.run("one that does not let it read does not end what another goes on with", SessionGapTest::notLet);
        ClientTest.run("where none answers any more all are tried again", SessionGapTest::noneAnswers);
        ClientTest.run("one that is cut off is left for one that has come further", SessionGapTest::cutOff);
        ClientTest.run("one that is cut off is stayed with while nobody else answers", SessionGapTest::stayedWith);
    }

    private static Wire.Request began(long order, long at) {
        return new Wire.Request(Wire.BEGAN).number(order, 8).number(at, 8).number(0, 2).number(1, 8).number(9, 8);
    }

    private static Wire.Request entered(long number, long line) {
        return inView(view(number), line).number(0, 1);
    }

    private static Wire.Request message(long position) {
        Wire.Request message = new Wire.Request(Wire.READ_MESSAGE + 4).number(position, 8);
        return message.number(1, 2).number(2, 4).name("bob").number(1, 2).name("g");
    }

    private static Wire.Request caughtUp(long position) {
        return new Wire.Request(Wire.CAUGHT_UP).number(position, 8);
    }

    private static Wire.Request ended(EndCause cause) {
        return Talk.text(new Wire.Request(Wire.NO_READING).number(cause.ordinal(), 1).number(0, 8).number(0, 8), "no");
    }

    private static Wire.Request parted(Place common) {
        return ended(EndCause.PARTED).number(1, 1).view(common.view()).number(common.position(), 8).number(0, 2);
    }

    private static Wire.Request frame(SessionEvent.Gap gap) {
        Wire.Request frame = new Wire.Request(Wire.GAP);
        for (Place place : List.of(gap.start(), gap.end())) {
            frame.view(place.view()).number(place.position(), 8).number(place.index(), 2);
        }
        return frame.number(0, 1);
    }

    private static SessionEvent.Gap gap(Place start, Place end) {
        return new SessionEvent.Gap(start, end);
    }

    /** A machine, what time it is, and what its daemon hears and says. */
    private static final class World {
        private final SessionMachine machine;
        private long now = 1_000_000_000;
        private Link link;
        private SessionFrames frames;

        World(int daemons) throws Exception {
            List<String> addresses = new ArrayList<>();
            for (int at = 1; at <= daemons; at++) {
                addresses.add("host:" + at);
            }
            machine = new SessionMachine(addresses, new SessionOptions(), now);
            machine.read(List.of("g"), ReadFrom.parse("0000000000000000:3@7/3/1700000+6/3/1700000/60"));
        }

        /** Reads on in view 7, at the first of so many daemons. */
        static World reads(int daemons) throws Exception {
            World world = new World(daemons);
            world.goesOn(7, 1, 3);
            return world;
        }

        /** Which daemon is next, once it is time for that. */
        int next() {
            now = Math.max(now, machine.nextAttempt());
            return Integer.parseInt(machine.address().substring("host:".length()));
        }

        /** Connects to what is next. */
        int connect() throws Exception {
            int daemon = next();
            link = new Link(WELCOME);
            frames = new SessionFrames(machine);
            machine.connected(link);
            return daemon;
        }

        /** What the daemon is asked to read: the place behind the last view, or the position; there is nothing else. */
        Place asked() throws Exception {
            DataInputStream requests = new DataInputStream(new ByteArrayInputStream(link.takePending()));
            Place asked = null;
            while (requests.available() > 0) {
                Wire.Frame frame = Wire.read(requests, 1 << 20);
                if (frame.kind() == Wire.READ_ON) {
                    asked = frame.fields().viewPlace();
                } else if (frame.kind() == Wire.READ) {
                    frame.fields().u64();
                    asked = new Place(frame.fields().u64(), frame.fields().u16(), null);
                }
            }
            return asked;
        }

        void fail() throws Exception {
            next();
            machine.failed(ConsortException.of(Kind.CANNOT_CONNECT, "nobody"), now);
        }

        void lose(String why) throws Exception {
            machine.lost(ConsortException.of(Kind.CONNECTION_LOST, why), now);
        }

        /** The daemon says this. True if the session leaves it at the last of it. */
        boolean says(Wire.Request... events) throws Exception {
            for (int at = 0; at < events.length; at++) {
                if (leavesAt(events[at])) {
                    check(at == events.length - 1, "left at event " + at);
                    return true;
                }
            }
            return false;
        }

        private boolean leavesAt(Wire.Request event) throws Exception {
            byte[] bytes = event.frame();
            try {
                frames.take(Wire.read(new DataInputStream(new ByteArrayInputStream(bytes)), bytes.length));
                machine.work();
                return false;
            } catch (ConsortException why) {
                check(!why.endsSession() && why.getMessage().contains("others are asked"), why);
                machine.lost(why, now);
                return true;
            } catch (IOException error) {
                throw new AssertionError(error);
            }
        }

        boolean lacks(SessionEvent.Gap gap) throws Exception {
            return says(frame(gap));
        }

        /** Connects to this daemon, and it goes on with the reading in that view, where it is asked for. */
        void goesOn(long number, int daemon, long position) throws Exception {
            int met = goesOn(number);
            check(met == daemon && reachedAt == position, "daemon " + met + " at " + reachedAt);
        }

        private long reachedAt;

        int goesOn(long number) throws Exception {
            int met = connect();
            reachedAt = asked().position();
            Wire.Request opened = new Wire.Request(Wire.OPENED).number(0, 8).number(1, 8).number(1, 8).number(0, 1);
            check(!says(opened, began(0, reachedAt), entered(number, 60)), "it is left at once");
            return met;
        }

        /** What the program is told from now on; nothing has parted. */
        List<SessionEvent> told() {
            List<SessionEvent> told = new ArrayList<>();
            for (SessionEvent event = machine.events().pop(); event != null; event = machine.events().pop()) {
                check(!(event instanceof SessionEvent.Parted), event);
                told.add(event);
            }
            return told;
        }

        /** The program was told of these gaps, and of no end. */
        void toldGaps(SessionEvent.Gap... gaps) {
            List<SessionEvent> told = told();
            check(told.stream().noneMatch(event -> event instanceof SessionEvent.ReadingEnded), told);
            List<SessionEvent> met = told.stream().filter(event -> event instanceof SessionEvent.Gap).toList();
            check(met.equals(List.of(gaps)), met);
        }

        /** How far the program has read, once it was told all. */
        void reached(String bookmark) {
            told();
            check(machine.events().bookmark().toString().equals(bookmark), machine.events().bookmark());
        }
    }

    private static void replaced() throws Exception {
        World world = World.reads(2);
        world.machine.read(List.of("h"), ReadFrom.at(9));
        check(world.asked().equals(Place.at(9)), "another reading");
        SessionEvent.Gap gap = gap(place(7, 3), place(8, 0));
        check(!world.lacks(gap), "no other daemon is asked");
        world.toldGaps(gap);
        check(world.machine.events().bookmark() == null, "it has not begun");
        check(!world.says(ended(EndCause.ENDED), began(7, 9)), "the one it was asked for");
        world.reached("0000000000000007:9");
        check(!world.says(ended(EndCause.CLOSED)), "it is over");
        world.machine.read(List.of("h"), ReadFrom.at(12));
        check(world.asked().equals(Place.at(12)), "a third");
        check(!world.says(began(7, 12)), "what was over is not waited for");
        world.reached("0000000000000007:12");
    }

    private static void elsewhere() throws Exception {
        World world = World.reads(3);
        check(world.says(message(4), frame(gap(place(7, 5), place(8, 0)))), "it is left");
        world.goesOn(7, 2, 5);
        world.says(message(6));
        world.toldGaps();
        check(world.lacks(gap(place(7, 7), place(9, 0))), "that is another gap: each is asked anew");
        world.goesOn(7, 3, 7);
        world.lose("gone");
        world.goesOn(7, 1, 7);
        check(!world.says(entered(9, 7), caughtUp(9)), "it has what was missing");
        world.toldGaps();
    }

    private static void leastIsLacking() throws Exception {
        World world = World.reads(3);
        check(world.lacks(gap(place(7, 3), place(8, 4))), "others are asked");
        world.goesOn(7, 2, 3);
        check(world.lacks(gap(place(7, 3), place(8, 0))), "one is left to ask");
        check(world.next() == 3, world.machine.address());
        world.fail();
        world.goesOn(7, 2, 3);
        world.toldGaps();
        SessionEvent.Gap more = gap(place(7, 3), place(8, 6));
        check(!world.lacks(more), "it lacks more now, and is asked no third time");
        world.toldGaps(more);
        world.reached("0000000000000000:6@8/3/1700000+6/3/1700000/60+7/3/1700000/3");
    }

    private static void lastOne() throws Exception {
        World world = World.reads(2);
        check(world.lacks(gap(place(7, 3), place(9, 0))), "another is asked");
        world.goesOn(7, 2, 3);
        SessionEvent.Gap gap = gap(place(7, 3), place(8, 0));
        check(!world.lacks(gap), "it lacks less");
        world.toldGaps(gap);
        World alone = World.reads(1);
        check(!alone.lacks(gap), "there is no other");
        alone.toldGaps(gap);
    }

    private static void everMore() throws Exception {
        World world = new World(5);
        List<Integer> met = new ArrayList<>();
        boolean isLeft = true;
        for (long to = 10; isLeft; to++) {
            met.add(world.goesOn(7));
            isLeft = world.lacks(gap(place(7, 3), place(7, to)));
        }
        check(met.equals(List.of(1, 2, 3, 4, 5, 1)), met);
        world.toldGaps(gap(place(7, 3), place(7, 15)));
        SessionEvent.Gap further = gap(place(7, 20), place(7, 40));
        check(!world.lacks(further), "the program is too slow for them all");
        world.toldGaps(further);
        check(world.lacks(gap(place(7, 40), place(8, 0))), "that is not for the program's slowness");
    }

    private static void nothingRead() throws Exception {
        World world = World.reads(2);
        world.says(message(4), entered(8, 5), caughtUp(2), entered(9, 3));
        check(world.lacks(gap(place(9, 0), place(10, 0))), "another is asked");
        check(world.connect() == 2 && world.asked().equals(place(9, 0)), "where it stands");
        check(!world.says(parted(place(7, 5))), "nothing was read behind that");
        check(world.asked().equals(place(7, 5)), "there it goes on");
        world.says(began(0, 5), entered(7, 60), message(5));
        world.toldGaps();
        world.reached("0000000000000000:6@7/3/1700000+6/3/1700000/60");
    }

    private static void somethingRead() throws Exception {
        World world = World.reads(2);
        world.says(entered(8, 5), message(1));
        SessionEvent.Gap gap = gap(place(8, 2), place(9, 0));
        check(world.lacks(gap), "another is asked");
        check(world.connect() == 2 && world.says(parted(place(7, 5))), "it does not go on");
        check(world.connect() == 1 && world.asked().equals(place(8, 2)), "the first does");
        check(!world.says(began(0, 2), entered(8, 5), frame(gap)), "it tells the gap");
        world.toldGaps(gap);
    }

    private static void moreThanInCommon() throws Exception {
        World world = World.reads(2);
        SessionEvent.Gap gap = gap(place(8, 0), place(9, 0));
        check(world.says(message(4), entered(8, 5), frame(gap)), "another is asked");
        check(world.connect() == 2 && world.says(parted(place(7, 4))), "it does not go on");
        world.goesOn(8, 1, 0);
        check(!world.lacks(gap), "it tells the gap");
        world.toldGaps(gap);
    }

    private static void closedOtherwise() throws Exception {
        World world = World.reads(2);
        SessionEvent.Gap gap = gap(place(7, 5), place(8, 0));
        check(world.says(message(4), frame(gap)), "another is asked");
        world.connect();
        check(world.says(parted(place(7, 4))), "it does not go on");
        world.goesOn(7, 1, 5);
        check(!world.lacks(gap), "it tells the gap");
        world.toldGaps(gap);
    }

    private static void notLet() throws Exception {
        World world = World.reads(2);
        SessionEvent.Gap gap = gap(place(7, 3), place(8, 0));
        check(world.lacks(gap), "another is asked");
        world.connect();
        check(world.says(ended(EndCause.UNSUPPORTED)), "it does not go on");
        world.goesOn(7, 1, 3);
        check(!world.lacks(gap), "it tells the gap");
        world.toldGaps(gap);
        check(!world.says(ended(EndCause.CLOSED)), "there it is over");
        List<SessionEvent> told = world.told();
        check(told.equals(List.of(new SessionEvent.ReadingEnded(EndCause.CLOSED, 0, 0, "no"))), told);
    }

    private static void noneAnswers() throws Exception {
        World world = World.reads(2);
        SessionEvent.Gap gap = gap(place(7, 3), place(8, 0));
        check(world.lacks(gap), "another is asked");
        for (int daemon : new int[] {2, 1, 2}) {
            check(world.next() == daemon, world.machine.address());
            world.fail();
        }
        world.toldGaps();
        world.goesOn(7, 1, 3);
        check(world.lacks(gap), "the other one may be back");
        world.goesOn(7, 2, 3);
        check(!world.says(entered(8, 3), caughtUp(3)), "it has what was missing");
        world.toldGaps();
    }

    private static void cutOff() throws Exception {
        World world = World.reads(3);
        check(world.lacks(gap(place(7, 3), place(9, 0))), "others are asked");
        world.goesOn(7, 2, 3);
        check(world.says(message(4), entered(8, 5), caughtUp(2)), "it has not come to view 9");
        world.goesOn(8, 3, 0);
        SessionEvent.Gap gap = gap(place(8, 0), place(9, 0));
        check(world.lacks(gap), "one is left to ask");
        world.goesOn(8, 1, 0);
        check(world.lacks(gap(place(8, 0), place(10, 0))), "it lacks more");
        world.goesOn(8, 3, 0);
        check(!world.lacks(gap), "it lacks least");
        world.toldGaps(gap);
        check(!world.says(caughtUp(1)), "nothing is sought any more");
    }

    private static void stayedWith() throws Exception {
        World world = World.reads(2);
        check(world.lacks(gap(place(7, 3), place(9, 0))), "another is asked");
        world.goesOn(7, 2, 3);
        check(world.says(caughtUp(2)), "it has not come to view 9");
        check(world.next() == 1, world.machine.address());
        world.fail();
        world.goesOn(7, 2, 3);
        check(!world.says(caughtUp(2)), "nobody else answers");
        world.toldGaps();
    }
}

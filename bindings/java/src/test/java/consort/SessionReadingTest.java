package consort;

import static consort.ClientTest.LONG;
import static consort.ClientTest.check;
import static consort.ClientTest.fails;
import static consort.SessionTest.connect;
import static consort.SessionTest.next;

import consort.ConsortException.Kind;
import consort.Event.DaemonId;
import consort.Event.ViewId;
import consort.FakeDaemon.Talk;
import consort.SessionReading.NextStep;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.random.RandomGenerator;

/** Tests of what sessions read, and of bytes that no daemon says: run by {@link ClientTest}. */
final class SessionReadingTest {
    private static final SessionOptions PLAIN = new SessionOptions();
    private static final List<String> G = List.of("g");

    private SessionReadingTest() {}

    static void runAll() throws Exception {
        ClientTest.run("bookmarks and places read back, and other texts are none", SessionReadingTest::texts);
        ClientTest.run("a reading of the protocol page, byte for byte", SessionReadingTest::aReadingByteForByte);
        ClientTest.run("a bookmark is of what was received, a reading of what came", SessionReadingTest::bookmarks);
        ClientTest.run("a reading begins where it was to, whatever was told of the one before", SessionReadingTest::another);
        ClientTest.run("a reading follows the views", SessionReadingTest::views);
        ClientTest.run("who was not there is left for one who knows", SessionReadingTest::asksOthers);
        ClientTest.run("where none knows, histories have parted", SessionReadingTest::parts);
        ClientTest.run("whatever a daemon says, the session goes on at another", SessionReadingTest::garbage);
        ClientTest.run("a session reads no more than is received", SessionReadingTest::unread);
        ClientTest.run("a subscriber knows how far it has read", SessionReadingTest::aSubscriber);
    }

    static ViewId view(long number) {
        return new ViewId(number, new DaemonId(3, 1_700_000));
    }

    static Place place(long view, long at) {
        return new Place(at, 0, view(view));
    }

    private static void texts() throws Exception {
        String views = "@6/3/1700000!9/18446744073709551615+4/3/1700000/7+5/3/1700000/0";
        List<String> good = List.of("00000000deadbeef:1234.2", "ffffffffffffffff:18446744073709551615",
                "0000000000000000:12@6/3/1700000", "0000000000000000:12" + views);
        for (String text : good) {
            Bookmark bookmark = Bookmark.parse(text);
            check(bookmark.toString().equals(text) && bookmark.equals(Bookmark.parse(text)), bookmark);
            check(ReadFrom.parse(text).equals(ReadFrom.after(bookmark)), text);
        }
        Bookmark last = Bookmark.parse(good.get(3));
        check(last.next().equals(place(6, 12)) && last.trail().closing().together() == -1, last);
        List<String> trails = List.of(
                "", "6", "6/3", "6/70000/1", "6/3/1!", "6/3/1!5", "6/3/1+", "6/3/1+4/3/1", "6/3/1/1", "-6/3/1",
                "6/3/1!1/2!3/4", "6/3/1" + "+1/1/1/1".repeat(17), "18446744073709551616/3/1", "6/-1/1");
        for (String trail : trails) {
            fails(Kind.INVALID, () -> Bookmark.parse("0000000000000000:12@" + trail));
        }
        for (String text : List.of("", ":", "1234", "deadbeef:1", "00000000deadbeef:", "00000000deadbeef:x",
                "+000000deadbeef0:1", "00000000deadbeef:1.2.3", "00000000deadbeef:1@")) {
            fails(Kind.INVALID, () -> Bookmark.parse(text));
        }
        for (String text : List.of("yesterday", "1.2.3", "-1", "+1", "0123:4", "", ".", "1.", ".1", "1.65536",
                "18446744073709551616", "\u0661")) {
            fails(Kind.INVALID, () -> ReadFrom.parse(text));
        }
        check(ReadFrom.parse("start").equals(ReadFrom.at(0)) && ReadFrom.parse("new").equals(ReadFrom.NEW), "words");
        check(ReadFrom.parse("12.3").equals(new ReadFrom.At(new Place(12, 3, null))), "a place");
    }

    private static byte[] body(Wire.Fields fields) {
        return fields.rest();
    }

    private static void aReadingByteForByte() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            check(session.bookmark() == null, "there is no reading");
            session.read(G, ReadFrom.START);
            Talk talk = daemon.opens(0);
            byte[] asked = ClientTest.unhex("0000000000000000" + "0000000000000000" + "0000" + "0001" + "0167");
            check(Arrays.equals(body(talk.hears(Wire.READ)), asked), "what is asked");
            talk.saysBytes(ClientTest.unhex("00000023f800000000deadbeef" + "00000000000000050000"
                    + "00000000000000050000000000000007" + "0000000bfc00010000000000000065"
                    + "00000019e40000000000000006" + "00010000000203626f62000101676869" + "00000009fa0000000000000007"));
            SessionEvent.ReadingBegan began = next(session, SessionEvent.ReadingBegan.class);
            check(began.equals(new SessionEvent.ReadingBegan(Place.at(5), 5, 7)), began);
            check(session.bookmark().toString().equals("00000000deadbeef:5"), session.bookmark());
            SessionEvent.Read read = next(session, SessionEvent.Read.class);
            check(new String(read.message().payload()).equals("hi") && read.message().position() == 6, read);
            check(read.message().incarnation() == 0x65 && read.message().sender().equals("#bob#n1"), read);
            check(session.bookmark().toString().equals("00000000deadbeef:7"), session.bookmark());
            check(next(session, SessionEvent.CaughtUp.class).position() == 7, "caught up");
            check(session.bookmark().toString().equals("00000000deadbeef:8"), session.bookmark());
            session.read(G, ReadFrom.NEW);
            check(session.bookmark() == null, "another reading");
            check(talk.hears(Wire.READ).u64() == 0, "any order");
            Wire.Request ended = new Wire.Request(Wire.NO_READING).number(7, 1).number(5, 8).number(7, 8);
            talk.says(Talk.text(ended, "ended"));
            SessionEvent.ReadingEnded told = next(session, SessionEvent.ReadingEnded.class);
            check(told.equals(new SessionEvent.ReadingEnded(SessionEvent.EndCause.ENDED, 5, 7, "ended")), told);
        }
    }

    private static void began(Talk talk, long order, long at) throws Exception {
        talk.says(new Wire.Request(Wire.BEGAN).number(order, 8).number(at, 8).number(0, 2).number(1, 8).number(99, 8));
    }

    /** Three messages at one position, which are called by their place. */
    private static void batch(Talk talk, long position) throws Exception {
        Wire.Request batch = new Wire.Request(Wire.READ_BATCH + 4).number(position, 8).number(0, 2);
        batch.number(1, 2).number(2, 4).name("bob");
        for (int index = 0; index < 3; index++) {
            batch.bytes(Client.multicastFrame(Service.AGREED, G, (position + "." + index).getBytes()));
        }
        talk.says(batch);
    }

    private static void bookmarks() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            session.read(G, ReadFrom.at(4));
            Talk talk = first.opens(0);
            check(talk.hears(Wire.READ).u64() == 0, "the order");
            began(talk, 9, 4);
            batch(talk, 4);
            batch(talk, 6);
            talk.says(new Wire.Request(Wire.LOST).number(7, 8).number(8, 8));
            talk.says(new Wire.Request(Wire.PROGRESS).number(0, 8).number(0, 8)); // too short
            List<String> places = new ArrayList<>();
            for (int at = 0; at < 3; at++) {
                SessionEvent.Read read = next(session, SessionEvent.Read.class);
                check(new String(read.message().payload()).equals("4." + read.index()), read);
                places.add(session.bookmark().toString().substring(17));
            }
            check(places.equals(List.of("4.1", "4.2", "5")), places);
            // The next daemon is asked behind what came, received or not.
            talk = second.opens(0);
            Wire.Fields asked = talk.hears(Wire.READ);
            check(asked.u64() == 9 && asked.u64() == 9 && asked.u16() == 0, "behind what is lost");
            check(next(session, SessionEvent.Read.class).index() == 0, "6");
            check(session.bookmark().toString().equals("0000000000000009:6.1"), session.bookmark());
            SessionEvent.Gap gap = next(session, SessionEvent.Gap.class);
            check(gap.equals(new SessionEvent.Gap(Place.at(7), Place.at(9))), gap);
            check(next(session, SessionEvent.Lost.class).text().contains("a frame that is too short"), "why");
            next(session, SessionEvent.Connected.class);
            check(session.bookmark().toString().equals("0000000000000009:9"), session.bookmark());
        }
    }

    private static void another() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            session.read(G, ReadFrom.at(4));
            Talk talk = first.opens(0);
            talk.hears(Wire.READ);
            session.read(G, ReadFrom.at(70));
            talk.hears(Wire.READ);
            // What it says of the former reading, it says of that alone.
            began(talk, 9, 4);
            batch(talk, 4);
            next(session, SessionEvent.Read.class);
            check(session.bookmark() == null, session.bookmark());
            parted(talk, place(7, 2));
            SessionEvent.ReadingEnded ended = next(session, SessionEvent.ReadingEnded.class);
            check(ended.cause() == SessionEvent.EndCause.PARTED && session.bookmark() == null, ended);
            talk.hangUp();
            talk = second.opens(0);
            check(talk.hears(Wire.READ).take(16)[15] == 70, "where it was to begin");
            began(talk, 9, 70);
            batch(talk, 70);
            // All credit is used up, so the next reading waits behind a join.
            session.send(Service.AGREED, G, new byte[300 << 10]);
            talk.hears(Wire.MULTICAST + Service.AGREED.number);
            session.join("a");
            session.read(G, ReadFrom.at(80));
            session.read(G, ReadFrom.at(90));
            batch(talk, 71);
            talk.hangUp();
            talk = first.opens(1);
            talk.hears(Wire.JOIN);
            check(talk.hears(Wire.READ).take(16)[15] == 90, "it was not asked for before");
            began(talk, 9, 90);
            session.join("b");
            talk.hears(Wire.JOIN);
            check(session.unsettled() == 0, "once is enough");
        }
    }

    static Wire.Request inView(ViewId view, long line) {
        return new Wire.Request(Wire.IN_VIEW).view(view).number(line, 8);
    }

    /** View 5 is missing up to there. */
    private static void gap(Talk talk, long end) throws Exception {
        Wire.Request gap = new Wire.Request(Wire.GAP).view(view(5)).number(0, 8).number(0, 2);
        talk.says(gap.view(view(5)).number(end, 8).number(0, 2).number(0, 1));
    }

    private static void views() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            session.read(G, ReadFrom.START);
            Talk talk = first.opens(0);
            talk.hears(Wire.READ);
            began(talk, 0, 2);
            talk.says(inView(view(4), 0).number(0, 1));
            batch(talk, 7);
            talk.says(inView(view(4), 0).number(1, 1).number(8, 8).number(5, 8));
            talk.says(inView(view(5), 8).number(0, 1));
            gap(talk, 31);
            check(next(session, SessionEvent.Lost.class).text().contains("lacks what follows"), "another is asked");
            talk = second.opens(0);
            check(talk.hears(Wire.READ_ON).viewPlace().equals(place(5, 0)), "the same");
            began(talk, 0, 0);
            talk.says(inView(view(5), 0).number(0, 1));
            gap(talk, 30);
            SessionEvent.Gap gap = next(session, SessionEvent.Gap.class);
            check(gap.equals(new SessionEvent.Gap(place(5, 0), place(5, 30))), gap);
            String text = "0000000000000000:30@5/3/1700000+4/3/1700000/8";
            check(session.bookmark().toString().equals(text), session.bookmark());
            talk.hangUp();
            talk = first.opens(0);
            Wire.Fields asked = talk.hears(Wire.READ_ON);
            check(asked.viewPlace().equals(place(5, 30)) && asked.u8() == 0 && asked.u16() == 1, "where");
            check(asked.view().equals(view(4)) && asked.u64() == 8, "and what was read before");
            check(asked.u16() == 1 && asked.name().equals("g") && asked.isEmpty(), "the group");
            began(talk, 0, 30);
            talk.says(inView(view(5), 0).number(1, 1).number(31, 8).number(6, 8));
            talk.hangUp();
            asked = second.opens(0).hears(Wire.READ_ON);
            check(asked.viewPlace().equals(place(5, 30)) && asked.u8() == 1, "how the view is being closed");
            check(asked.u64() == 31 && asked.u64() == 6, "likewise");
        }
    }

    /** Reads on in view 7, behind views 5 and 6. */
    private static SessionReading reading() throws Exception {
        String text = "0000000000000000:3@7/3/1700000+5/3/1700000/50+6/3/1700000/60";
        return new SessionReading(G, ReadFrom.parse(text));
    }

    private static void asksOthers() throws Exception {
        SessionReading reading = reading();
        check(reading.isOther(1, null, 3).equals(new NextStep.Ask(2)), "there are others");
        check(reading.noAnswer(2, 3).equals(new NextStep.Ask(0)) && reading.isAsking(), "and another");
        check(reading.isOther(0, null, 3).equals(new NextStep.Part(null, -1)), "there is none");
        reading.part(null);
        check(!reading.isAsking() && reading.from().equals(ReadFrom.START), "with the oldest");

        reading = reading();
        reading.isOther(0, place(5, 50), 4);
        reading.isOther(1, place(6, 8), 4);
        reading.isOther(2, place(6, 7), 4);
        check(reading.isOther(3, null, 4).equals(new NextStep.Part(place(6, 8), 1)), "the latest counts");
        check(reading().isOther(1, place(7, 2), 3).equals(new NextStep.Part(place(7, 2), 1)), "who was there knows");
        check(reading().isOther(0, place(6, 9), 1).equals(new NextStep.Part(place(6, 9), 0)), "one alone");
    }

    private static void parted(Talk talk, Place common) throws Exception {
        Wire.Request none = new Wire.Request(Wire.NO_READING).number(8, 1).number(0, 8).number(0, 8);
        Talk.text(none, "parted").number(common == null ? 0 : 1, 1);
        if (common != null) {
            none.view(common.view()).number(common.position(), 8).number(common.index(), 2);
        }
        talk.says(none);
    }

    private static void parts() throws Exception {
        try (FakeDaemon first = new FakeDaemon(); FakeDaemon second = new FakeDaemon()) {
            Session session = connect(PLAIN, first, second);
            session.read(G, reading().from());
            Talk talk = first.opens(0);
            talk.hears(Wire.READ_ON);
            parted(talk, place(6, 8));
            check(next(session, SessionEvent.Lost.class).text().contains("others are asked"), "it is left");
            talk = second.opens(0);
            check(talk.hears(Wire.READ_ON).viewPlace().equals(place(7, 3)), "the same is asked");
            parted(talk, null);
            check(next(session, SessionEvent.Parted.class).common().equals(place(6, 8)), "the first has most in common");
            talk = first.opens(0);
            check(talk.hears(Wire.READ_ON).viewPlace().equals(place(6, 8)), "it goes on there");
            began(talk, 0, 8);
            talk.says(inView(view(6), 0).number(0, 1));
            batch(talk, 8);
            next(session, SessionEvent.Read.class);
            check(session.bookmark().toString().equals("0000000000000000:8.1@6/3/1700000"), session.bookmark());
            parted(talk, place(6, 8));
            check(next(session, SessionEvent.Parted.class).common().equals(place(6, 8)), "one that was there is believed");
            check(talk.hears(Wire.READ_ON).viewPlace().equals(place(6, 8)), "and asked at once");
        }
    }

    /** What a daemon may say to a session, of each kind. */
    private static byte[] words() {
        Wire.Request[] words = {
            new Wire.Request(Wire.OPENED).number(0, 8).number(1, 8).number(1, 8).number(0, 1),
            new Wire.Request(Wire.BEGAN).number(0, 8).number(4, 8).number(0, 2).number(1, 8).number(9, 8),
            inView(view(4), 0).number(1, 1).number(8, 8).number(5, 8),
            new Wire.Request(Wire.READ_MESSAGE + 4).number(4, 8).number(1, 2).number(2, 4).name("bob").number(1, 2).name("g"),
            new Wire.Request(Wire.READ_BATCH + 4).number(5, 8).number(0, 2).number(1, 2).number(2, 4).name("bob")
                    .bytes(new Wire.Request(Wire.MULTICAST + 4).number(1, 2).name("g").frame()),
            new Wire.Request(Wire.GAP).view(view(4)).number(6, 8).number(0, 2).view(view(4)).number(9, 8).number(0, 2)
                    .number(0, 1),
            new Wire.Request(Wire.CAUGHT_UP).number(9, 8),
            new Wire.Request(Wire.LOST).number(9, 8).number(9, 8),
            new Wire.Request(Wire.SETTLED).number(1, 8).number(1, 8).number(7, 8),
            new Wire.Request(Wire.WAITS).number(1, 1),
            Talk.text(new Wire.Request(Wire.REFUSED).number(2, 8).number(12, 1), "no"),
            new Wire.Request(Wire.NUMBERING_ENDED),
            Talk.text(new Wire.Request(Wire.NO_READING).number(8, 1).number(1, 8).number(9, 8), "no").number(0, 1),
        };
        StringBuilder all = new StringBuilder();
        for (Wire.Request word : words) {
            all.append(HexFormat.of().formatHex(word.frame()));
        }
        return ClientTest.unhex(all.toString());
    }

    /** No byte of a daemon's may harm the session: each send has one fate, and another daemon is found. */
    private static void garbage() throws Exception {
        RandomGenerator chance = RandomGenerator.of("L64X128MixRandom");
        byte[] words = words();
        for (int round = 0; round < 200; round++) {
            byte[] damaged = words.clone();
            for (int times = 0; times < round % 5; times++) {
                damaged[chance.nextInt(damaged.length)] = (byte) chance.nextInt(256);
            }
            says(damaged).close();
        }
    }

    /** Has a session survive a daemon that says this. */
    private static Session says(byte[] damaged) throws Exception {
        try (FakeDaemon bad = new FakeDaemon(); FakeDaemon good = new FakeDaemon()) {
            Session session = connect(PLAIN, bad, good);
            session.read(G, ReadFrom.START);
            List<CompletableFuture<Fate>> fates = new ArrayList<>();
            for (String text : List.of("a", "b", "c")) {
                fates.add(session.outcome(SessionTest.send(session, text)));
            }
            Talk talk = bad.next();
            talk.saysBytes(damaged);
            talk.hangUp();
            goesOn(fates, good);
            for (CompletableFuture<Fate> fate : fates) {
                isTold(fate);
            }
            return session;
        }
    }

    /** A daemon that knows nothing of the session lets it go on, unless it is over. */
    private static void goesOn(List<CompletableFuture<Fate>> fates, FakeDaemon good) throws Exception {
        while (!good.hasNext() && !fates.stream().allMatch(CompletableFuture::isDone)) {
            Thread.sleep(1);
        }
        if (good.hasNext()) {
            Talk talk = good.next();
            talk.hears(Wire.OPEN);
            talk.opened(0, true);
            talk.settled(9);
            for (CompletableFuture<Fate> fate : fates) {
                isTold(fate);
            }
            talk.hangUp();
        }
    }

    private static void isTold(CompletableFuture<Fate> fate) throws Exception {
        try {
            check(fate.get(20, TimeUnit.SECONDS) != null, "a fate");
        } catch (ExecutionException over) {
            Kind kind = ((ConsortException) over.getCause()).kind();
            check(kind == Kind.TAKEN_OVER || kind == Kind.NOT_OPENED, over);
        }
    }

    private static void unread() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            session.read(G, ReadFrom.NEW);
            SessionTest.send(session, "a");
            Talk talk = daemon.opens(0);
            began(talk, 9, 1);
            Client.start("fake-floods", () -> {
                try {
                    for (int at = 1; at <= 12; at++) {
                        Wire.Request read = new Wire.Request(Wire.READ_MESSAGE + 4).number(at, 8).number(1, 2);
                        talk.says(read.number(2, 4).name("bob").number(1, 2).name("g").bytes(new byte[8 << 20]));
                    }
                    talk.settled(1);
                } catch (IOException error) {
                    throw new AssertionError(error);
                }
            });
            fails(Kind.UNREAD, () -> session.settle(LONG));
            for (int at = 1; at <= 12; at++) {
                check(next(session, SessionEvent.Read.class).message().position() == at, at);
            }
            session.settle(LONG);
        }
    }

    private static void aSubscriber() throws Exception {
        try (FakeDaemon daemon = new FakeDaemon()) {
            Session session = connect(PLAIN, daemon);
            session.read(G, ReadFrom.NEW);
            Talk talk = daemon.opens(0);
            began(talk, 9, 1);
            batch(talk, 1);
            List<String> marks = new ArrayList<>();
            CompletableFuture<Void> end = new CompletableFuture<>();
            CompletableFuture<Void> third = new CompletableFuture<>();
            session.events().subscribe(new Flow.Subscriber<SessionEvent>() {
                @Override
                public void onSubscribe(Flow.Subscription subscription) {
                    subscription.request(Long.MAX_VALUE);
                }

                @Override
                public void onNext(SessionEvent event) {
                    if (event instanceof SessionEvent.Read read) {
                        marks.add(session.bookmark().toString().substring(17));
                        if (read.index() == 2) {
                            third.complete(null);
                        }
                    }
                }

                @Override
                public void onError(Throwable error) {
                    end.completeExceptionally(error);
                }

                @Override
                public void onComplete() {
                    end.complete(null);
                }
            });
            third.get(20, TimeUnit.SECONDS);
            session.close(Duration.ofSeconds(5));
            end.get(20, TimeUnit.SECONDS);
            check(marks.equals(List.of("1.1", "1.2", "2")), marks);
        }
    }
}

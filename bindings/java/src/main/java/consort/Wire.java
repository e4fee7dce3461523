package consort;

import consort.Event.DaemonId;
import consort.Event.GroupView;
import consort.Event.GroupViewId;
import consort.Event.Member;
import consort.Event.Message;
import consort.Event.ViewId;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongUnaryOperator;

/** The bytes of the session protocol. */
final class Wire {
    static final int MAGIC = 0xc04ec11e;
    static final int VERSION = 2;
    /** More than the largest frame has beside its payload. */
    static final int TEXT_MAX = 1 << 20;

    static final int HELLO = 0x01;
    static final int JOIN = 0x02;
    static final int LEAVE = 0x03;
    static final int GOODBYE = 0x06;
    static final int JOIN_CLOSED = 0x07;
    static final int READ = 0x0b;
    static final int OPEN = 0x0c;
    static final int FORGET = 0x0d;
    static final int READ_ON = 0x0e;
    static final int MULTICAST = 0x10;

    static final int HEARTBEAT = 0x80;
    static final int WELCOME = 0x81;
    static final int PROGRESS = 0x82;
    static final int REFUSED = 0x83;
    static final int VIEW = 0x84;
    static final int GROUP_VIEW = 0x85;
    static final int DISCONNECT = 0x88;
    static final int SIGNAL = 0x89;
    static final int INCARNATION = 0xfc;
    static final int MESSAGE = 0x90;
    static final int BATCH = 0xb0;
    static final int PLACED = 0xc0;
    static final int PLACED_BATCH = 0xd0;
    static final int READ_MESSAGE = 0xe0;
    static final int IN_VIEW = 0xe6;
    static final int GAP = 0xe7;
    static final int READ_BATCH = 0xf0;
    static final int SETTLED = 0xf6;
    static final int NUMBERING_ENDED = 0xf7;
    static final int BEGAN = 0xf8;
    static final int NO_READING = 0xf9;
    static final int CAUGHT_UP = 0xfa;
    static final int LOST = 0xfb;
    static final int OPENED = 0xfd;
    static final int WAITS = 0xfe;
    static final int NOT_OPENED = 0xff;

    private Wire() {}

    /** A daemon wrote what no daemon writes. */
    static final class Malformed extends IOException {
        private static final long serialVersionUID = 1;

        Malformed(String what) {
            super("the daemon sent a malformed frame: " + what);
        }
    }

    /** One event of a daemon, as it came. */
    record Frame(int kind, Fields fields) {}

    static Frame read(DataInputStream from, int max) throws IOException {
        long length = Integer.toUnsignedLong(from.readInt());
        if (length < 1 || length > max) {
            throw new Malformed("a length of " + length + " bytes");
        }
        int kind = from.readUnsignedByte();
        byte[] body = new byte[(int) length - 1];
        from.readFully(body);
        return new Frame(kind, new Fields(ByteBuffer.wrap(body)));
    }

    /** A request: its kind and what follows; the length is put before it at the end. */
    static final class Request {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        Request(int kind) {
            number(0, 4).number(kind, 1);
        }

        Request number(long number, int size) {
            for (int at = size - 1; at >= 0; at--) {
                out.write((int) (number >> 8 * at));
            }
            return this;
        }

        Request name(String name) {
            byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
            return number(bytes.length, 1).bytes(bytes);
        }

        Request view(ViewId view) {
            DaemonId daemon = view.representative();
            return number(view.number(), 8).number(daemon.node(), 2).number(daemon.incarnation(), 8);
        }

        Request bytes(byte[] bytes) {
            out.writeBytes(bytes);
            return this;
        }

        byte[] frame() {
            byte[] frame = out.toByteArray();
            ByteBuffer.wrap(frame).putInt(frame.length - 4);
            return frame;
        }
    }

    /** Takes fields off a body. */
    static final class Fields {
        private final ByteBuffer bytes;

        Fields(ByteBuffer bytes) {
            this.bytes = bytes;
        }

        int u8() {
            return bytes.get() & 0xff;
        }

        int u16() {
            return bytes.getShort() & 0xffff;
        }

        long u32() {
            return bytes.getInt() & 0xffff_ffffL;
        }

        long u64() {
            return bytes.getLong();
        }

        byte[] take(long count) {
            if (count > bytes.remaining()) {
                throw new BufferUnderflowException();
            }
            byte[] taken = new byte[(int) count];
            bytes.get(taken);
            return taken;
        }

        byte[] rest() {
            return take(bytes.remaining());
        }

        boolean isEmpty() {
            return !bytes.hasRemaining();
        }

        String name() {
            return new String(take(u8()), StandardCharsets.UTF_8);
        }

        String text() {
            return new String(take(u16()), StandardCharsets.UTF_8);
        }

        void done(String what) throws Malformed {
            if (bytes.hasRemaining()) {
                throw new Malformed(what);
            }
        }

        /** Yes or no. */
        boolean flag(String what) throws Malformed {
            int flag = u8();
            if (flag > 1) {
                throw new Malformed(what);
            }
            return flag == 1;
        }

        /** A place in a view. */
        Place viewPlace() {
            ViewId view = view();
            return new Place(u64(), u16(), view);
        }

        /** How many entries follow that have at least so many bytes each. */
        private int count(long count, int least) {
            if (count * least > bytes.remaining()) {
                throw new BufferUnderflowException();
            }
            return (int) count;
        }

        DaemonId daemon() {
            return new DaemonId(u16(), u64());
        }

        ViewId view() {
            return new ViewId(u64(), daemon());
        }

        GroupViewId groupViewId() {
            return new GroupViewId(view(), u64());
        }

        List<DaemonId> daemons() {
            int count = count(u16(), 10);
            List<DaemonId> daemons = new ArrayList<>(count);
            for (int at = 0; at < count; at++) {
                daemons.add(daemon());
            }
            return List.copyOf(daemons);
        }

        private List<Member> members(boolean withSets) {
            int count = count(u32(), 15);
            List<Member> members = new ArrayList<>(count);
            for (int at = 0; at < count; at++) {
                members.add(new Member(daemon(), u32(), name(), withSets ? u16() : 0));
            }
            return List.copyOf(members);
        }

        private List<String> targets() {
            int count = count(u16(), 1);
            List<String> targets = new ArrayList<>(count);
            for (int at = 0; at < count; at++) {
                targets.add(name());
            }
            return List.copyOf(targets);
        }

        GroupView groupView() {
            String group = name();
            GroupViewId id = groupViewId();
            boolean closed = (u8() & 1) != 0;
            Event.Primary primary = named(Event.Primary.values(), u8());
            Event.Cause cause = named(Event.Cause.values(), u8());
            List<Member> changed = members(false);
            return new GroupView(group, id, closed, primary, cause, changed, members(true));
        }

        Event.View networkView() {
            ViewId id = view();
            boolean transitional = u8() == 2;
            Event.Primary primary = named(Event.Primary.values(), u8());
            List<DaemonId> members = daemons();
            return new Event.View(id, transitional, primary, members, daemons(), text());
        }

        /** A message, or those of a batch; `incarnations` tells the incarnation of a node. */
        List<Message> messages(Service service, boolean isBatch, long position, LongUnaryOperator incarnations) {
            int node = u16();
            long number = u32();
            String sender = Names.privateName(name(), node);
            long incarnation = incarnations.applyAsLong(node);
            List<Message> messages = new ArrayList<>();
            if (!isBatch) {
                messages.add(new Message(service, sender, node, number, targets(), rest(), position, incarnation));
                return messages;
            }
            while (!isEmpty()) {
                Fields one = new Fields(ByteBuffer.wrap(take(u32())));
                one.u8();
                messages.add(new Message(service, sender, node, number, one.targets(), one.rest(), position, incarnation));
            }
            return messages;
        }
    }

    /** What a number stands for; the first of them where it is of a later release. */
    static <T> T named(T[] all, int number) {
        return number < all.length ? all[number] : all[0];
    }
}

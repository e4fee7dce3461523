// What a node in Java does for `consort bench peers` whatever orders its messages: it sends and receives in its own
// process, as applications of such systems do. Helpers of the measurement connect to its port on the loopback interface.
// One says when to send what; one is told of each delivered message its stamp, its length and when it came, and judges
// all of that with the code that judges every other system. Numbers are big-endian, times are nanoseconds of
// System.nanoTime().

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;

abstract class MeasuredNode {
    /** The stamp at the front of a message, of which this program knows only what it writes itself. */
    private static final int HEADER = 24;
    private static final byte UNMEASURED = 0, MEASURED = 1, END = 2;
    /** When a message came, its length, its stamp. */
    private static final int RECORD = 8 + 4 + HEADER;
    /** Deliveries are told in parcels of so many, and every so many milliseconds. */
    private static final int PARCEL = 4_096, TELL_MS = 50;
    /** Below this wait one looks at the clock instead of sleeping. */
    private static final long NAP = 10_000;

    private volatile Ear ear;

    /** Waits until so many nodes are together. */
    abstract void awaitMembers(int count) throws Exception;

    /** Sends a message, once there is room for it. The bytes are the system's from here on. */
    abstract void send(byte[] message) throws Exception;

    /** A message has its place. */
    final void delivered(long now, byte[] bytes, int offset, int length) {
        Ear ear = this.ear;
        if (ear != null) {
            ear.take(now, bytes, offset, length);
        }
    }

    /** Listens to helpers, says by a file that it does, and goes on for ever. */
    final void run(int port, Path joined) throws IOException {
        ServerSocket listener = new ServerSocket(port, 64, InetAddress.getLoopbackAddress());
        Files.createFile(joined);
        while (true) {
            Socket socket = listener.accept();
            new Thread(() -> serve(socket)).start();
        }
    }

    /** Does what one helper asks for; what goes wrong is told to it, as long as it listens. */
    private void serve(Socket socket) {
        try (socket) {
            socket.setTcpNoDelay(true);
            DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            try {
                boolean sends = in.readBoolean();
                awaitMembers(in.readInt());
                if (sends) {
                    tell(out, System.nanoTime());
                    tell(out, send(in));
                } else {
                    listen(socket, in, out);
                }
            } catch (Exception problem) {
                out.writeBoolean(false);
                out.writeUTF(problem.toString());
            }
        } catch (IOException gone) {
            // The helper has ended: nobody is left to tell.
        }
    }

    private static void tell(OutputStream out, long number) throws IOException {
        ByteBuffer answer = ByteBuffer.allocate(9).put((byte) 1).putLong(number);
        out.write(answer.array());
    }

    /** Sends until time is up; answers how many messages there were before the one that marks the end. */
    private long send(DataInputStream in) throws Exception {
        short sender = in.readShort();
        byte[] body = new byte[in.readInt()];
        Arrays.fill(body, (byte) '.');
        boolean cut = in.readBoolean();
        long start = in.readLong(), from = in.readLong(), until = in.readLong();
        boolean paced = in.readBoolean();
        long[] due = new long[in.readInt()];
        for (int place = 0; place < due.length; place++) {
            due[place] = in.readLong();
        }
        wakePrecisely();
        int number = 0;
        while (true) {
            long now = System.nanoTime();
            if (paced ? number == due.length || cut && now >= until : now >= until) {
                break;
            }
            long at = paced ? due[number] : Math.max(now, start);
            sleepUntil(at);
            send(message(at, number, sender, at >= from && at < until ? MEASURED : UNMEASURED, body));
            number += 1;
        }
        send(message(System.nanoTime(), number, sender, END, new byte[HEADER]));
        return number;
    }

    /** A system may keep what it is given until all have it, so each message has bytes of its own. */
    private static byte[] message(long at, long number, short sender, byte kind, byte[] body) {
        byte[] bytes = body.clone();
        byte[] rest = new byte[5];
        ByteBuffer.wrap(bytes).putLong(at).putLong(number).putShort(sender).put(kind).put(rest);
        return bytes;
    }

    private static void sleepUntil(long at) {
        for (long left = at - System.nanoTime(); left > 0; left = at - System.nanoTime()) {
            if (left < NAP) {
                Thread.onSpinWait();
            } else {
                LockSupport.parkNanos(left - NAP / 2);
            }
        }
    }

    /** Wakes this thread when it wants to, not up to 50 us later; where that is not granted it wakes later. */
    private static void wakePrecisely() {
        try {
            String thread = Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
            Files.write(Path.of("/proc", thread, "timerslack_ns"), new byte[] {'1'});
        } catch (IOException | RuntimeException refused) {
            System.err.println("timers are as late as usual: " + refused);
        }
    }

    /** Tells of all that is delivered until the helper has ended. */
    private void listen(Socket socket, InputStream in, OutputStream out) throws IOException {
        Ear mine = new Ear(out);
        synchronized (mine) {
            ear = mine;
            tell(out, System.nanoTime());
        }
        socket.setSoTimeout(TELL_MS);
        while (true) {
            try {
                if (in.read() < 0) {
                    return;
                }
            } catch (SocketTimeoutException now) {
                mine.flush();
            }
        }
    }

    /** Collects what was delivered for the helper that judges it. */
    private static final class Ear {
        private final OutputStream out;
        private final ByteBuffer parcel = ByteBuffer.allocate(PARCEL * RECORD);

        Ear(OutputStream out) {
            this.out = out;
        }

        synchronized void take(long now, byte[] bytes, int offset, int length) {
            int next = parcel.position() + RECORD;
            parcel.putLong(now).putInt(length);
            parcel.put(bytes, offset, Math.min(HEADER, length));
            parcel.position(next);
            if (parcel.remaining() < RECORD) {
                try {
                    flush();
                } catch (IOException gone) {
                    // The helper's own thread notices that as well.
                    parcel.clear();
                }
            }
        }

        synchronized void flush() throws IOException {
            out.write(parcel.array(), 0, parcel.position());
            parcel.clear();
        }
    }
}

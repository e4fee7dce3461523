package consort;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** Events of a session that wait for the program, fates that it waits for, and how far it has read. */
final class SessionQueue {
    /** What an event costs beside its weight, in bytes. */
    private static final int COST = 128;

    /**
     * What stands in the queue.
     *
     * @param event what is told; {@code null} for what only concerns how far the reading has come
     * @param mark what it says of that; {@code null} for nothing
     */
    private record Item(SessionEvent event, Consumer<ReadingProgress> mark) {
        int cost() {
            return event == null ? 0 : COST + event.weight();
        }
    }

    /** In their order. A fate has the number of its send as its key, so that it is found; others have keys of no meaning. */
    private final Map<Object, Item> items = new LinkedHashMap<>();
    private final Map<Long, CompletableFuture<Fate>> awaited = new HashMap<>();
    private final ReadingProgress told = new ReadingProgress();
    private final ThreadPoolExecutor teller = teller();
    private long bytes;

    /** Whatever a program has done on a fate holds up other fates alone. */
    private static ThreadPoolExecutor teller() {
        return new ThreadPoolExecutor(0, 1, 1, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> {
            Thread thread = new Thread(work, "consort-fates");
            thread.setDaemon(true);
            return thread;
        });
    }

    void push(SessionEvent event) {
        push(event, null);
    }

    /** An event that says how far the reading has come; with {@code null} that alone. */
    void push(SessionEvent event, Consumer<ReadingProgress> mark) {
        put(new Object(), new Item(event, mark));
    }

    private void put(Object key, Item item) {
        items.put(key, item);
        bytes += item.cost();
        pass();
    }

    /** What the program is told next; {@code null} for nothing. */
    SessionEvent pop() {
        if (items.isEmpty()) {
            return null;
        }
        Item item = take(items.keySet().iterator().next());
        pass();
        return item.event;
    }

    private Item take(Object key) {
        Item item = items.remove(key);
        bytes -= item.cost();
        if (item.mark != null) {
            item.mark.accept(told);
        }
        return item;
    }

    /** The first item is an event, or there is none. */
    private void pass() {
        while (!items.isEmpty()) {
            Map.Entry<Object, Item> first = items.entrySet().iterator().next();
            if (first.getValue().event != null) {
                return;
            }
            take(first.getKey());
        }
    }

    /** How far the program has read; {@code null} before any reading began. */
    Bookmark bookmark() {
        return told.bookmarkOrAsked();
    }

    /** How many bytes wait. */
    long bytes() {
        return bytes;
    }

    /** A send has its fate: whoever waits for it is told, or else it is an event. */
    void tell(long send, Fate fate) {
        CompletableFuture<Fate> waiting = awaited.remove(send);
        if (waiting == null) {
            put(send, new Item(new SessionEvent.Sent(send, fate), null));
        } else {
            waiting.completeAsync(() -> fate, teller);
        }
    }

    /** The fate of a send, if it waits to be told; it is told now. */
    Fate takeFate(long send) {
        if (!items.containsKey(send)) {
            return null;
        }
        SessionEvent taken = take(send).event;
        pass();
        return ((SessionEvent.Sent) taken).fate();
    }

    /** The fate of a send that has none yet. */
    CompletableFuture<Fate> await(long send) {
        return awaited.computeIfAbsent(send, number -> new CompletableFuture<>()).copy();
    }

    /** Nobody hears of the fates that are missing. */
    void end(ConsortException why) {
        Map<Long, CompletableFuture<Fate>> missing = new HashMap<>(awaited);
        awaited.clear();
        missing.values().forEach(future -> teller.execute(() -> future.completeExceptionally(why.again())));
    }
}

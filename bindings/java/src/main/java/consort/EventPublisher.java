package consort;

import java.util.concurrent.Flow;
import java.util.concurrent.atomic.AtomicBoolean;

/** Hands events to one subscriber, as many as it asks for, by a thread of its own. */
final class EventPublisher<E> implements Flow.Publisher<E> {
    private final Source<E> events;
    private final AtomicBoolean taken = new AtomicBoolean();

    /** Where events come from. */
    interface Source<E> {
        /** The next one. Waits for as long as it takes. */
        E take() throws ConsortException, InterruptedException;
    }

    EventPublisher(Source<E> events) {
        this.events = events;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super E> subscriber) {
        Subscription subscription = new Subscription(subscriber);
        subscriber.onSubscribe(subscription);
        if (taken.getAndSet(true)) {
            subscriber.onError(new IllegalStateException("events have one subscriber; ask events() for another"));
            return;
        }
        Thread thread = new Thread(subscription::run, "consort-events");
        thread.setDaemon(true);
        subscription.thread = thread;
        thread.start();
    }

    private final class Subscription implements Flow.Subscription {
        private final Flow.Subscriber<? super E> subscriber;
        private volatile Thread thread;
        private long wanted;
        private boolean cancelled;
        private boolean misused;

        Subscription(Flow.Subscriber<? super E> subscriber) {
            this.subscriber = subscriber;
        }

        @Override
        public synchronized void request(long count) {
            misused |= count <= 0;
            wanted = wanted + count < 0 ? Long.MAX_VALUE : wanted + Math.max(count, 0);
            notifyAll();
        }

        @Override
        public synchronized void cancel() {
            cancelled = true;
            notifyAll();
            Thread waiting = thread;
            if (waiting != null && waiting != Thread.currentThread()) {
                waiting.interrupt();
            }
        }

        /** Waits until another is wanted; false once none ever will be. */
        private synchronized boolean isWanted() throws InterruptedException {
            while (wanted == 0 && !cancelled && !misused) {
                wait();
            }
            if (misused && !cancelled) {
                throw new IllegalArgumentException("ask for one event or more");
            }
            wanted--;
            return !cancelled;
        }

        private void run() {
            try {
                while (isWanted()) {
                    subscriber.onNext(events.take());
                }
            } catch (ConsortException end) {
                if (end.kind() == ConsortException.Kind.CLOSED) {
                    subscriber.onComplete();
                } else {
                    subscriber.onError(end);
                }
            } catch (IllegalArgumentException misuse) {
                subscriber.onError(misuse);
            } catch (InterruptedException cancelled) {
                // Whoever has cancelled wants to hear nothing more.
            }
        }
    }
}

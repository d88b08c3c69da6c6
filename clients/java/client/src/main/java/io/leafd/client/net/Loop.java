package io.leafd.client.net;

import java.io.IOException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Iterator;
import java.util.PriorityQueue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * The one thread of a client: sockets, timers, and tasks that other threads hand over.
 *
 * <p>Happy path: {@link #execute} from any thread; what it runs, and all other methods, belong to
 * the loop's thread. It is a daemon, so a program can end without closing its clients, and starts
 * with the first task. Failure modes: what a task throws ends that task alone, and is told to the
 * thread's handler of uncaught exceptions; once the loop is stopped tasks are dropped.
 */
public final class Loop implements Executor {
    /** A task for later. It belongs to the loop's thread. */
    public static final class Timer implements Comparable<Timer> {
        private final long atNanos;
        private Runnable task;

        private Timer(long atNanos, Runnable task) {
            this.atNanos = atNanos;
            this.task = task;
        }

        /** The task does not run any more. */
        public void cancel() {
            task = null;
        }

        @Override
        public int compareTo(Timer other) {
            return Long.signum(atNanos - other.atNanos);
        }
    }

    /** What a socket's key carries. */
    interface Ready {
        void ready(SelectionKey key);
    }

    private final ConcurrentLinkedQueue<Runnable> tasks = new ConcurrentLinkedQueue<>();
    private final PriorityQueue<Timer> timers = new PriorityQueue<>();
    private final AtomicBoolean started = new AtomicBoolean();
    private final AtomicBoolean woken = new AtomicBoolean();
    private final Selector selector;
    private final Thread thread;
    private volatile boolean stopping;

    /** Opens the selector; the thread starts later. */
    public Loop() {
        try {
            selector = Selector.open();
        } catch (IOException e) {
            throw new IllegalStateException("no selector can be opened: " + e, e);
        }
        thread = new Thread(this::run, "leafd-client");
        thread.setDaemon(true);
    }

    @Override
    public void execute(Runnable task) {
        if (stopping) {
            return;
        }
        tasks.add(task);
        if (!started.get() && started.compareAndSet(false, true)) {
            thread.start();
        } else if (Thread.currentThread() != thread && woken.compareAndSet(false, true)) {
            selector.wakeup();
        }
    }

    /** Runs the task on the loop's thread once {@link System#nanoTime} has reached the time. */
    public Timer schedule(long atNanos, Runnable task) {
        Timer timer = new Timer(atNanos, task);
        timers.add(timer);
        return timer;
    }

    /** Ends the thread after the tasks that were handed over before; its sockets are closed. */
    public void stop() {
        if (started.compareAndSet(false, true)) {
            stopping = true;
            closeAll();
        } else {
            execute(() -> stopping = true);
        }
    }

    /** Is this the loop's own thread? */
    public boolean isCurrent() {
        return Thread.currentThread() == thread;
    }

    Selector selector() {
        return selector;
    }

    private void run() {
        try {
            while (!stopping) {
                turn();
            }
        } finally {
            stopping = true;
            closeAll();
        }
    }

    /** What sockets have is read before a timer that is due may say that nothing has come. */
    private void turn() {
        long now = System.nanoTime();
        try {
            if (tasks.isEmpty()) {
                long waitMs = untilTimerMs();
                if (waitMs > 0) {
                    selector.select(waitMs);
                } else {
                    selector.selectNow();
                }
            } else {
                selector.selectNow();
            }
        } catch (IOException e) {
            guarded(() -> {
                throw new IllegalStateException("select failed: " + e, e);
            });
        }
        woken.set(false);
        for (Iterator<SelectionKey> it = selector.selectedKeys().iterator(); it.hasNext();) {
            SelectionKey key = it.next();
            it.remove();
            guarded(() -> ((Ready) key.attachment()).ready(key));
        }
        for (Runnable task = tasks.poll(); task != null; task = tasks.poll()) {
            guarded(task);
        }
        runTimers(now);
    }

    /** Rounded up: a timer that is due within the millisecond is waited for, not spun for. */
    private long untilTimerMs() {
        while (!timers.isEmpty() && timers.peek().task == null) {
            timers.poll();
        }
        if (timers.isEmpty()) {
            return 60_000;
        }
        long nanos = timers.peek().atNanos - System.nanoTime();
        return nanos <= 0 ? 0 : Math.min(60_000, nanos / 1_000_000 + 1);
    }

    private void runTimers(long now) {
        while (!timers.isEmpty() && timers.peek().atNanos - now <= 0) {
            Runnable task = timers.poll().task;
            if (task != null) {
                guarded(task);
            }
        }
    }

    private void guarded(Runnable task) {
        try {
            task.run();
        } catch (Throwable e) { // an Error of the program's hook, too: without this thread no call ends
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        }
    }

    private void closeAll() {
        try {
            for (SelectionKey key : selector.keys()) {
                key.channel().close();
            }
            selector.close();
        } catch (IOException e) {
            // The sockets are gone with the process at the latest; nobody could do more.
            tasks.clear();
        }
        tasks.clear();
        timers.clear();
    }
}

// One node of an Aeron cluster, for `consort bench peers`: a media driver, an archive, a consensus module and a service,
// and a client of the cluster that sends, all in one process. What the service is given is what was delivered.

import io.aeron.ExclusivePublication;
import io.aeron.Image;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.client.AeronArchive;
import io.aeron.cluster.ClusteredMediaDriver;
import io.aeron.cluster.ConsensusModule;
import io.aeron.cluster.client.AeronCluster;
import io.aeron.cluster.client.EgressListener;
import io.aeron.cluster.codecs.CloseReason;
import io.aeron.cluster.service.ClientSession;
import io.aeron.cluster.service.Cluster;
import io.aeron.cluster.service.ClusteredService;
import io.aeron.cluster.service.ClusteredServiceContainer;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.Header;
import java.io.File;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.NoOpLock;
import org.agrona.concurrent.UnsafeBuffer;

final class AeronNode extends MeasuredNode implements ClusteredService, EgressListener {
    private static final int PORTS = 5;
    private static final long CONNECT_MS = 30_000, ALIVE_MS = 250;
    private static final String TERM = "term-length=4m";

    private final int members;
    private final String directory, ingress;
    /** How many own messages may still be sent before one of them has come back. */
    private final Semaphore window;
    private final byte[] stamp = new byte[64];
    private AeronCluster client;
    private volatile long session = -1;

    /** The words: this node's number from 0, a directory, the bytes of a frame, a window of own messages, its client port, a
     * file to make once it is there, and five ports for each node. */
    public static void main(String[] words) throws Exception {
        int me = Integer.parseInt(words[0]);
        String[] ports = java.util.Arrays.copyOfRange(words, 6, words.length);
        AeronNode node = new AeronNode(words[1], Integer.parseInt(words[3]), ports);
        node.start(me, Integer.parseInt(words[2]), ports);
        node.connect();
        node.run(Integer.parseInt(words[4]), Path.of(words[5]));
    }

    private AeronNode(String directory, int window, String[] ports) {
        this.directory = directory;
        this.window = new Semaphore(window > 0 ? window : Integer.MAX_VALUE);
        members = ports.length / PORTS;
        StringBuilder ends = new StringBuilder();
        for (int node = 0; node < members; node++) {
            ends.append(node == 0 ? "" : ",").append(node).append("=localhost:").append(ports[node * PORTS]);
        }
        ingress = ends.toString();
    }

    private static String membersOf(String[] ports) {
        StringBuilder all = new StringBuilder();
        for (int at = 0; at < ports.length; at++) {
            all.append(at % PORTS == 0 ? (at == 0 ? "" : "|") + at / PORTS : "").append(",localhost:").append(ports[at]);
        }
        return all.toString();
    }

    private static IdleStrategy backoff() {
        return new BackoffIdleStrategy(1, 10, 1_000, 100_000);
    }

    private void start(int me, int frame, String[] ports) {
        String aeron = directory + "/aeron", udp = "aeron:udp?" + TERM + "|mtu=" + frame;
        MediaDriver.Context driver = new MediaDriver.Context()
                .aeronDirectoryName(aeron)
                .threadingMode(ThreadingMode.SHARED)
                .sharedIdleStrategy(backoff())
                .ipcMtuLength(frame)
                .mtuLength(frame)
                .dirDeleteOnStart(true);
        Archive.Context archive = new Archive.Context()
                .aeronDirectoryName(aeron)
                .archiveDir(new File(directory, "archive"))
                .controlChannel("aeron:udp?endpoint=localhost:" + ports[me * PORTS + 4])
                .localControlChannel("aeron:ipc?term-length=64k")
                .replicationChannel("aeron:udp?endpoint=localhost:0")
                .recordingEventsEnabled(false)
                .threadingMode(ArchiveThreadingMode.SHARED)
                .idleStrategySupplier(AeronNode::backoff);
        AeronArchive.Context archiveClient = new AeronArchive.Context()
                .lock(NoOpLock.INSTANCE)
                .controlRequestChannel(archive.localControlChannel())
                .controlRequestStreamId(archive.localControlStreamId())
                .controlResponseChannel("aeron:ipc?term-length=64k")
                .aeronDirectoryName(aeron);
        ConsensusModule.Context consensus = new ConsensusModule.Context()
                .aeronDirectoryName(aeron)
                .clusterMemberId(me)
                .clusterMembers(membersOf(ports))
                .clusterDir(new File(directory, "cluster"))
                .ingressChannel(udp)
                .logChannel(udp)
                .replicationChannel("aeron:udp?endpoint=localhost:0")
                .archiveContext(archiveClient.clone())
                .idleStrategySupplier(AeronNode::backoff);
        ClusteredMediaDriver.launch(driver, archive, consensus);
        ClusteredServiceContainer.launch(new ClusteredServiceContainer.Context()
                .aeronDirectoryName(aeron)
                .archiveContext(archiveClient.clone())
                .clusterDir(new File(directory, "cluster"))
                .clusteredService(this)
                .idleStrategySupplier(AeronNode::backoff));
    }

    /** Opens a session with the cluster, which takes until it has a leader, and keeps it. */
    private void connect() throws InterruptedException {
        long deadline = System.nanoTime() + CONNECT_MS * 1_000_000;
        while (client == null) {
            try {
                client = AeronCluster.connect(new AeronCluster.Context()
                        .aeronDirectoryName(directory + "/aeron")
                        .egressListener(this)
                        .egressChannel("aeron:udp?endpoint=localhost:0")
                        .ingressChannel("aeron:udp?" + TERM)
                        .ingressEndpoints(ingress));
            } catch (RuntimeException early) {
                if (System.nanoTime() > deadline) {
                    throw early;
                }
                Thread.sleep(100);
            }
        }
        session = client.clusterSessionId();
        Thread keeper = new Thread(this::keepAlive);
        keeper.setDaemon(true);
        keeper.start();
    }

    private void keepAlive() {
        try {
            while (true) {
                synchronized (this) {
                    client.pollEgress();
                    client.sendKeepAlive();
                }
                Thread.sleep(ALIVE_MS);
            }
        } catch (InterruptedException over) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    void awaitMembers(int count) throws Exception {
        if (count != members) {
            throw new Exception("the cluster of Aeron has " + members + " members and not " + count);
        }
    }

    @Override
    void send(byte[] message) throws Exception {
        window.acquire();
        UnsafeBuffer buffer = new UnsafeBuffer(message);
        IdleStrategy idle = backoff();
        while (true) {
            synchronized (this) {
                long result = client.offer(buffer, 0, message.length);
                if (result > 0) {
                    return;
                }
                if (client.isClosed()) {
                    throw new Exception("the cluster of Aeron has ended the session");
                }
                client.pollEgress();
            }
            idle.idle();
        }
    }

    @Override
    public void onSessionMessage(
            ClientSession sender, long timestamp, DirectBuffer buffer, int offset, int length, Header header) {
        long now = System.nanoTime();
        buffer.getBytes(offset, stamp, 0, Math.min(stamp.length, length));
        if (sender.id() == session) {
            window.release();
        }
        delivered(now, stamp, 0, length);
    }

    @Override
    public void onStart(Cluster cluster, Image snapshot) {}

    @Override
    public void onSessionOpen(ClientSession session, long timestamp) {}

    @Override
    public void onSessionClose(ClientSession session, long timestamp, CloseReason reason) {}

    @Override
    public void onTimerEvent(long correlationId, long timestamp) {}

    @Override
    public void onTakeSnapshot(ExclusivePublication publication) {}

    @Override
    public void onRoleChange(Cluster.Role role) {}

    @Override
    public void onTerminate(Cluster cluster) {}

    @Override
    public void onMessage(
            long session, long timestamp, DirectBuffer buffer, int offset, int length, Header header) {}
}

// One node of a JGroups cluster, for `consort bench peers`: a member that sends and receives in its own process.

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.jgroups.BytesMessage;
import org.jgroups.JChannel;
import org.jgroups.Message;
import org.jgroups.Receiver;
import org.jgroups.View;
import org.jgroups.conf.ConfiguratorFactory;
import org.jgroups.conf.ProtocolConfiguration;
import org.jgroups.conf.ProtocolStackConfigurator;

final class JGroupsNode extends MeasuredNode implements Receiver {
    private static final long JOIN_MS = 20_000;

    private final JChannel channel;
    /** How many own messages may still be sent before one of them has come back. */
    private final Semaphore window;
    private View view;

    public static void main(String[] words) throws Exception {
        String stack = words[0], cluster = words[1];
        JGroupsNode node = new JGroupsNode(stack, Integer.parseInt(words[4]));
        node.channel.connect(cluster);
        node.run(Integer.parseInt(words[2]), Path.of(words[3]));
    }

    private JGroupsNode(String stack, int window) throws Exception {
        this.window = new Semaphore(window > 0 ? window : Integer.MAX_VALUE);
        channel = new JChannel(ordered(stack)).setReceiver(this);
    }

    /** A stack that came with JGroups, with SEQUENCER below what cuts messages, where JGroups' own example has it. */
    private static ProtocolStackConfigurator ordered(String stack) throws Exception {
        ProtocolStackConfigurator configurator = ConfiguratorFactory.getStackConfigurator(stack);
        List<ProtocolConfiguration> protocols = configurator.getProtocolStack();
        int place = 0;
        while (place < protocols.size() && !protocols.get(place).getProtocolName().matches("FRAG.*|SEQUENCER")) {
            place += 1;
        }
        if (place == protocols.size() || !protocols.get(place).getProtocolName().equals("SEQUENCER")) {
            protocols.add(place, new ProtocolConfiguration("SEQUENCER", null));
        }
        return configurator;
    }

    @Override
    public synchronized void viewAccepted(View view) {
        this.view = view;
        notifyAll();
    }

    @Override
    public void receive(Message message) {
        long now = System.nanoTime();
        if (channel.getAddress().equals(message.getSrc())) {
            window.release();
        }
        delivered(now, message.getArray(), message.getOffset(), message.getLength());
    }

    @Override
    void send(byte[] message) throws Exception {
        window.acquire();
        channel.send(new BytesMessage(null, message));
    }

    @Override
    synchronized void awaitMembers(int count) throws Exception {
        long deadline = System.nanoTime() + JOIN_MS * 1_000_000;
        while (view == null || view.size() != count) {
            long left = (deadline - System.nanoTime()) / 1_000_000;
            if (left <= 0) {
                throw new Exception("the view of JGroups is " + view + " and not one of " + count + " members");
            }
            wait(left);
        }
    }
}

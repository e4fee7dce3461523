package consort;

import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.time.Duration;
import javax.net.ssl.SSLContext;

/**
 * How a client connects.
 *
 * @param name what the client is called, which no other client of the daemon may be; empty to have the daemon find one
 * @param views whether views of the network are told
 * @param positions whether the position of each message is told, and its sender's incarnation
 * @param within how long connecting may take
 * @param token what proves who the client is, where the daemon asks for it; 160 bytes at most, empty for none. At a Unix
 *     socket it is shown only to a daemon that runs as this user, as root, or as the user who alone may write to the
 *     socket's directory; with any other daemon, connecting fails as {@code CANNOT_CONNECT}. Finding that out
 *     needs the module {@code jdk.net}, which each JDK has.
 * @param hostTimeout how long a daemon at a TCP address may be silent before the connection is given up, as
 *     {@code CONNECTION_LOST}: 1 s to 6 h. Its machine has vanished then, or the daemon is stopped for that long. The daemon
 *     says something four times in that time, so that a stop of half of it is never too long. A daemon of an earlier release
 *     promises to say nothing, and is not given up.
 * @param daemonTimeout the same for a daemon of this machine, at a Unix socket: 1 s to 6 h, {@code null} for ever. It is
 *     stopped then, or hangs: a daemon that ends is noticed at once.
 * @param tls whom to believe and what to show where TLS 1.3 is spoken, with a daemon at a TCP address of its
 *     {@code listen_tls}; {@code null} for no TLS. Earlier versions are never spoken, and the daemon's certificate must name
 *     the host of the address. A Unix socket has no TLS.
 */
public record Options(
        String name,
        boolean views,
        boolean positions,
        Duration within,
        String token,
        Duration hostTimeout,
        Duration daemonTimeout,
        SSLContext tls) {
    /** No name, no views, no positions, ten seconds, no token; two seconds of silence over TCP, ten on this machine. */
    public Options() {
        this("", false, false, Duration.ofSeconds(10), "", Duration.ofSeconds(2), Duration.ofSeconds(10),
                null);
    }

    /** The same under a name. */
    public Options name(String name) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, with views or without. */
    public Options views(boolean views) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, with positions or without. */
    public Options positions(boolean positions) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, with this time for connecting. */
    public Options within(Duration within) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, showing this token. Whoever reads it on its way can show it, too. */
    public Options token(String token) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, giving up a daemon at a TCP address after this silence. */
    public Options hostTimeout(Duration hostTimeout) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, giving up a daemon of this machine after this silence; never with {@code null}. */
    public Options daemonTimeout(Duration daemonTimeout) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** The same, with TLS at TCP addresses; without with {@code null}. */
    public Options tls(SSLContext tls) {
        return new Options(name, views, positions, within, token, hostTimeout, daemonTimeout, tls);
    }

    /** Refuses what cannot be. */
    void check() throws ConsortException {
        if (!name.isEmpty()) {
            Names.checkClient(name);
        }
        if (within == null) {
            throw ConsortException.invalid("within is null; give the time that connecting may take");
        }
        Silence.check("hostTimeout", hostTimeout);
        if (daemonTimeout != null) {
            Silence.check("daemonTimeout", daemonTimeout);
        }
        if (tls != null) {
            Sealed.check(tls);
        }
    }

    /** Refuses what cannot be at such an address; returns where that is. */
    SocketAddress check(String address) throws ConsortException {
        check();
        SocketAddress at = Connection.read(address);
        if (tls != null && at instanceof UnixDomainSocketAddress) {
            throw ConsortException.invalid("TLS is given for `" + address
                    + "`, a Unix socket; name a host:port where the daemon speaks TLS, or give none");
        }
        return at;
    }

    /** How long a daemon there may be silent; {@code null} for ever. */
    Duration silenceAt(SocketAddress address) {
        return address instanceof UnixDomainSocketAddress ? daemonTimeout : hostTimeout;
    }
}

package consort;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** TLS 1.3 over a channel, with a daemon whose certificate names its host. */
final class Sealed {
    private Sealed() {}

    static void check(SSLContext tls) throws ConsortException {
        try {
            tls.getSocketFactory();
        } catch (IllegalStateException error) {
            throw ConsortException.invalid("tls cannot be used: " + error.getMessage() + "; call init() on the SSLContext");
        }
    }

    /** Shakes hands over what such streams of the channel read and write. */
    static Socket shakeHands(SSLContext tls, InetSocketAddress at, Below below) throws IOException {
        String host = at.getHostString();
        SSLSocket sealed = (SSLSocket) tls.getSocketFactory().createSocket(below, host, at.getPort(), true);
        SSLParameters how = sealed.getSSLParameters();
        how.setProtocols(new String[] {"TLSv1.3"});
        how.setEndpointIdentificationAlgorithm("HTTPS");
        sealed.setSSLParameters(how);
        sealed.startHandshake();
        return sealed;
    }

    /** A channel as the socket that TLS wants: reads and writes at once, and is closed under both. */
    static final class Below extends Socket {
        private final SocketChannel channel;
        private final InputStream input;
        private final OutputStream output;

        Below(SocketChannel channel, InputStream input, OutputStream output) {
            this.channel = channel;
            this.input = input;
            this.output = output;
        }

        @Override
        public InputStream getInputStream() {
            return input;
        }

        @Override
        public OutputStream getOutputStream() {
            return output;
        }

        @Override
        public boolean isConnected() {
            return channel.isConnected();
        }

        @Override
        public boolean isClosed() {
            return !channel.isOpen();
        }

        @Override
        public void shutdownInput() throws IOException {
            channel.shutdownInput();
        }

        @Override
        public void shutdownOutput() throws IOException {
            channel.shutdownOutput();
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }
}

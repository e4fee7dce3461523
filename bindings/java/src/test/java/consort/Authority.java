package consort;

import static consort.ClientTest.check;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Signs certificates, by `keytool`. */
final class Authority {
    private static final String WORD = "changeit";
    static final Path KEYTOOL = Path.of(System.getProperty("java.home"), "bin", "keytool");

    private final Path directory = Files.createTempDirectory("consort");
    private final Path store = directory.resolve("store.p12");

    Authority(String name) throws Exception {
        keytool("authority", "CN=" + name, "-ext", "bc:c");
    }

    /** Makes a certificate with this name, such as `dns:eu.billing`; it is called so from here on. */
    Authority signs(String name) throws Exception {
        keytool(name, "CN=none", "-signer", "authority", "-ext", "san=" + name);
        return this;
    }

    private void keytool(String alias, String subject, String... more) throws Exception {
        List<String> words = new ArrayList<>(List.of(KEYTOOL.toString(), "-genkeypair", "-alias", alias, "-dname", subject,
                "-keyalg", "RSA", "-keysize", "2048", "-startdate", "-1H", "-validity", "2", "-storetype", "PKCS12",
                "-keystore", store.toString(), "-storepass", WORD));
        words.addAll(Arrays.asList(more));
        Process process = new ProcessBuilder(words).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes());
        check(process.waitFor() == 0, said);
    }

    private KeyStore load() throws Exception {
        return KeyStore.getInstance(store.toFile(), WORD.toCharArray());
    }

    private static KeyStore empty() throws Exception {
        KeyStore empty = KeyStore.getInstance("PKCS12");
        empty.load(null, null);
        return empty;
    }

    /** One that believes this authority, and shows a certificate of that one's, if there is one. */
    SSLContext believing(Authority signer, String own) throws Exception {
        KeyStore believed = empty();
        believed.setCertificateEntry("authority", load().getCertificate("authority"));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(believed);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own == null ? null : signer.shows(own), trust.getTrustManagers(), null);
        return context;
    }

    private KeyManager[] shows(String own) throws Exception {
        KeyStore shown = empty();
        // The leaf alone: what an authority does not ask for is shown, too.
        Certificate[] chain = {load().getCertificate(own)};
        shown.setKeyEntry(own, load().getKey(own, WORD.toCharArray()), WORD.toCharArray(), chain);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(shown, WORD.toCharArray());
        return keys.getKeyManagers();
    }

    /** A file with a certificate. */
    String certificate(String alias) throws Exception {
        return write(alias, "CERTIFICATE", load().getCertificate(alias).getEncoded());
    }

    /** A file with its key. */
    String key(String alias) throws Exception {
        return write(alias, "PRIVATE KEY", load().getKey(alias, WORD.toCharArray()).getEncoded());
    }

    private String write(String alias, String kind, byte[] bytes) throws IOException {
        Path path = directory.resolve(alias.replace(':', '-') + "-" + kind.substring(0, 4) + ".pem");
        String body = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        Files.writeString(path, "-----BEGIN " + kind + "-----\n" + body + "\n-----END " + kind + "-----\n");
        Files.setPosixFilePermissions(path, PosixFilePermissions.fromString("rw-------"));
        return path.toString();
    }
}

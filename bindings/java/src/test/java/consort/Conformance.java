package consort;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.zip.CRC32;

/** The Java client and its session, told what to do line by line: docs/clients.md. */
public final class Conformance {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    /** With no time at all it would not even look. */
    private static final long LOOK = 50;

    /** What is open; one at most. */
    private Client client;
    private Session session;

    private Conformance() {}

    public static void main(String[] none) throws IOException, InterruptedException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Conformance told = new Conformance();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(told.reply(List.of(line.trim().split("\\s+"))));
            System.out.flush();
        }
        told.leave();
    }

    private void leave() throws InterruptedException {
        try {
            close();
        } catch (ConsortException over) {
            // It was over already.
        }
    }

    private String close() throws ConsortException, InterruptedException {
        Client client = this.client;
        Session session = this.session;
        this.client = null;
        this.session = null;
        if (client != null) {
            client.close(PATIENCE);
        }
        if (session != null) {
            session.close(PATIENCE);
        }
        return "ok";
    }

    private String reply(List<String> words) throws InterruptedException {
        try {
            return answer(words.get(0), words.subList(1, words.size()));
        } catch (ConsortException error) {
            return failure(error);
        }
    }

    private String answer(String request, List<String> words) throws ConsortException, InterruptedException {
        String word = words.isEmpty() ? "" : words.get(0);
        if (request.equals("connect")) {
            return connect(words);
        }
        if (request.equals("has") && word.equals("session")) {
            return "ok";
        }
        if (request.equals("session")) {
            return connectSession(words);
        }
        if (session != null) {
            return askSession(request, words, word);
        }
        if (client == null) {
            throw ConsortException.of(ConsortException.Kind.CLOSED, "this client was closed; connect anew");
        }
        return switch (request) {
            case "join" -> "ok send=" + client.join(word);
            case "join_closed" -> "ok send=" + client.joinClosed(word);
            case "leave" -> "ok send=" + client.leave(word);
            case "send" -> "ok send=" + client.multicast(service(words), targets(words), payload(words.get(1)), PATIENCE);
            case "receive" -> line(client.receive(time(word)));
            case "wait" -> {
                client.settle(PATIENCE);
                yield "ok";
            }
            case "close" -> close();
            default -> throw ConsortException.invalid("`" + request + "` is no request");
        };
    }

    private String askSession(String request, List<String> words, String word)
            throws ConsortException, InterruptedException {
        switch (request) {
            case "join" -> session.join(word);
            case "join_closed" -> session.joinClosed(word);
            case "leave" -> session.leave(word);
            case "read" -> session.read(words.subList(1, words.size()), ReadFrom.parse(word));
            case "send" -> {
                return "ok send=" + session.send(service(words), targets(words), payload(words.get(1)), PATIENCE);
            }
            case "receive" -> {
                return line(session.receive(time(word)));
            }
            case "wait" -> session.settle(time(word));
            case "close" -> close();
            default -> throw ConsortException.invalid("`" + request + "` is no request");
        }
        return "ok";
    }

    private String connectSession(List<String> words) throws ConsortException, InterruptedException {
        Session connected = Session.connect(words, new SessionOptions());
        leave();
        session = connected;
        return "ok";
    }

    private String connect(List<String> words) throws ConsortException, InterruptedException {
        Options options = new Options().within(PATIENCE);
        for (String word : words.subList(1, words.size())) {
            if (word.startsWith("name=")) {
                options = options.name(word.substring("name=".length()));
            }
            options = options.views(options.views() || word.equals("views"));
            options = options.positions(options.positions() || word.equals("positions"));
        }
        Client connected = Client.connect(words.get(0), options);
        leave();
        client = connected;
        return "ok name=" + client.name() + " node=" + client.daemon().node() + " message_max=" + client.messageMax();
    }

    private static Service service(List<String> words) {
        String wanted = words.get(0);
        return Arrays.stream(Service.values()).filter(known -> word(known).equals(wanted)).findAny().orElse(null);
    }

    private static List<String> targets(List<String> words) {
        return words.subList(2, words.size());
    }

    private static Duration time(String milliseconds) {
        return Duration.ofMillis(Math.max(Long.parseLong(milliseconds), LOOK));
    }

    /** Hexadecimal, `-` for none, `5a*9` for nine times the same. */
    private static byte[] payload(String written) throws ConsortException {
        if (written.equals("-")) {
            return new byte[0];
        }
        String[] parts = written.split("\\*");
        try {
            byte[] one = HexFormat.of().parseHex(parts[0]);
            int times = parts.length > 1 ? Integer.parseInt(parts[1]) : 1;
            byte[] payload = new byte[one.length * times];
            for (int at = 0; at < times; at++) {
                System.arraycopy(one, 0, payload, at * one.length, one.length);
            }
            return payload;
        } catch (IllegalArgumentException error) {
            throw ConsortException.invalid(error.getMessage());
        }
    }

    private static String line(SessionEvent event) {
        if (event == null) {
            return "none";
        }
        if (event instanceof Event.Message message) {
            return "message " + fields(message);
        }
        if (event instanceof SessionEvent.Read read) {
            return "read " + fields(read.message());
        }
        if (event instanceof SessionEvent.Sent sent) {
            return "sent send=" + sent.send() + " fate=" + fate(sent.fate());
        }
        if (event instanceof Event membership) {
            return membership(membership);
        }
        String name = event.getClass().getSimpleName();
        return name.replaceAll("(?<!^)([A-Z])", "_$1").toLowerCase(Locale.ROOT);
    }

    private static String fate(Fate fate) {
        if (fate instanceof Fate.Refused refused) {
            return "refused cause=" + word(refused.cause()) + " : " + refused.text();
        }
        return fate instanceof Fate.Ordered ? "ordered" : "forgotten";
    }

    private static String fields(Event.Message message) {
        CRC32 sum = new CRC32();
        sum.update(message.payload());
        String line = String.format("service=%s sender=%s length=%d crc=%08x to=%s", word(message.service()),
                message.sender(), message.payload().length, sum.getValue(), String.join(",", message.to()));
        return message.position() == 0
                ? line
                : line + " position=" + message.position() + " incarnation=" + message.incarnation();
    }

    private static String membership(Event event) {
        if (event instanceof Event.GroupView view) {
            return String.format("group_view group=%s cause=%s closed=%s primary=%s changed=%s members=%s", view.group(),
                    word(view.cause()), view.closed() ? "yes" : "no", word(view.primary()), names(view.changed()),
                    names(view.members()));
        }
        if (event instanceof Event.GroupSignal signal) {
            return "group_signal group=" + signal.group();
        }
        if (event instanceof Event.View view) {
            String members = view.members().stream().map(member -> "n" + member.node()).collect(Collectors.joining(","));
            return String.format("view kind=%s primary=%s members=%s : %s", view.transitional() ? "transitional" : "regular",
                    word(view.primary()), members, view.text());
        }
        Event.Refused refused = (Event.Refused) event;
        return "refused send=" + refused.send() + " cause=" + word(refused.cause()) + " : " + refused.text();
    }

    private static String names(List<Event.Member> members) {
        return members.stream().map(Event.Member::privateName).collect(Collectors.joining(","));
    }

    private static String word(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT);
    }

    private static String failure(ConsortException error) {
        String words = word(error.kind());
        if (Arrays.asList(ConsortException.Kind.NOT_WELCOME, ConsortException.Kind.DISCONNECTED).contains(error.kind())) {
            words += " reason=" + word(error.reason());
        }
        if (Arrays.asList(ConsortException.Kind.DISCONNECTED, ConsortException.Kind.CONNECTION_LOST).contains(error.kind())) {
            words += " unknown=" + error.unknownFate().count();
        }
        return "error kind=" + words + " : " + error.getMessage();
    }
}

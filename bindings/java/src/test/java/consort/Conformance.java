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

/** The Java client, told what to do line by line: docs/clients.md. */
public final class Conformance {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    /** With no time at all it would not even look. */
    private static final long LOOK = 50;

    private Client client;

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
        Client client = this.client;
        this.client = null;
        try {
            if (client != null) {
                client.close(PATIENCE);
            }
        } catch (ConsortException over) {
            // It was over already.
        }
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
        if (client == null) {
            throw ConsortException.of(ConsortException.Kind.CLOSED, "this client was closed; connect anew");
        }
        return switch (request) {
            case "join" -> "ok send=" + client.join(word);
            case "join_closed" -> "ok send=" + client.joinClosed(word);
            case "leave" -> "ok send=" + client.leave(word);
            case "send" -> "ok send=" + send(words);
            case "receive" -> receive(word);
            case "wait" -> await();
            case "close" -> {
                Client closing = client;
                client = null;
                closing.close(PATIENCE);
                yield "ok";
            }
            default -> throw ConsortException.invalid("`" + request + "` is no request");
        };
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

    private long send(List<String> words) throws ConsortException, InterruptedException {
        String wanted = words.get(0);
        Service service = Arrays.stream(Service.values()).filter(known -> word(known).equals(wanted)).findAny().orElse(null);
        return client.multicast(service, words.subList(2, words.size()), payload(words.get(1)), PATIENCE);
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

    private String await() throws ConsortException, InterruptedException {
        client.settle(PATIENCE);
        return "ok";
    }

    private String receive(String milliseconds) throws ConsortException, InterruptedException {
        Event event = client.receive(Duration.ofMillis(Math.max(Long.parseLong(milliseconds), LOOK)));
        return event == null ? "none" : line(event);
    }

    private static String line(Event event) {
        if (event instanceof Event.Message message) {
            CRC32 sum = new CRC32();
            sum.update(message.payload());
            String line = String.format("message service=%s sender=%s length=%d crc=%08x to=%s", word(message.service()),
                    message.sender(), message.payload().length, sum.getValue(), String.join(",", message.to()));
            return message.position() == 0
                    ? line
                    : line + " position=" + message.position() + " incarnation=" + message.incarnation();
        }
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

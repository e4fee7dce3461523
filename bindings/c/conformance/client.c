/* The C library, told what to do line by line: docs/clients.md. */
#include <consort.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 64
#define CLOSE 10000

static const char *const services[] = {"", "reliable", "fifo", "causal", "agreed", "safe"};
static const char *const causes[] = {"", "join", "leave", "disconnect", "network", "primary"};
static const char *const primaries[] = {"", "yes", "pending", "no", "no_policy"};
static const char *const refusals[] = {"",        "budget",         "too_large",  "too_many_targets", "leaving",
                                       "unsupported", "already_member", "not_member", "too_many_groups",  "closed",
                                       "groups_full", "not_representable", "not_primary", "missing", "fenced",
                                       "forgotten", "denied", "demoted", "across_rings"};
static const char *const reasons[] = {"",     "goodbye",  "malformed",  "version",     "silent",          "slow",
                                      "stopping", "name_taken", "not_allowed", "too_many_clients", "restarting",
                                      "spool_failed", "denied", "unproven", "token_malformed", "token_unknown",
                                      "token_expired"};
static const char *const kinds[] = {"ok",          "nothing",   "invalid",    "busy",      "wrong_half",      "unsupported",
                                    "cannot_connect", "no_daemon", "not_welcome", "timed_out", "would_block",
                                    "too_large",   "targets",   "unread",     "nobody_receives", "connection_lost",
                                    "disconnected", "internal", "unreachable", "taken_over", "not_opened"};
static const char *const fates[] = {"", "ordered", "refused", "forgotten"};

#define NAME(names, number) ((size_t)(number) < sizeof(names) / sizeof *(names) ? (names)[number] : "unknown")

/* One of these, or none. */
static consort_client *client;
static consort_session *session;

static void failed(consort_code code) {
    printf("error kind=%s", NAME(kinds, code));
    if (consort_last_reason() != 0) printf(" reason=%s", NAME(reasons, consort_last_reason()));
    if (code == CONSORT_CONNECTION_LOST || code == CONSORT_DISCONNECTED)
        printf(" unknown=%" PRIu64, consort_last_unknown_fate(NULL));
    printf(" : %s\n", consort_last_error());
}

static void wrong(const char *why) {
    printf("error kind=invalid : %s\n", why);
}

static void done(consort_code code) {
    code == CONSORT_OK ? (void)puts("ok") : failed(code);
}

static void sent(consort_code code, uint64_t send) {
    code == CONSORT_OK ? (void)printf("ok send=%" PRIu64 "\n", send) : failed(code);
}

typedef consort_code to_group(const consort_client *, const char *, uint64_t *);

static void sent_to_group(to_group *call, const char *group) {
    uint64_t send = 0;
    consort_code code = call(client, group, &send);
    sent(code, send);
}

static uint32_t crc32_of(const uint8_t *bytes, size_t len) {
    uint32_t table[256], crc = 0xffffffff;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
    for (size_t i = 0; i < len; i++) crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 255];
    return ~crc;
}

static void connect_to(char **words, int count) {
    if (count < 1) { wrong("no address"); return; }
    consort_options *options = consort_options_new();
    consort_code code = CONSORT_OK;
    for (int i = 1; i < count && code == CONSORT_OK; i++) {
        if (strcmp(words[i], "views") == 0) code = consort_options_set_views(options, true);
        else if (strcmp(words[i], "positions") == 0) code = consort_options_set_positions(options, true);
        else code = consort_options_set_name(options, strncmp(words[i], "name=", 5) == 0 ? words[i] + 5 : "");
    }
    consort_client *opened = NULL;
    if (code == CONSORT_OK) code = consort_connect(words[0], options, &opened);
    consort_options_free(options);
    if (code != CONSORT_OK) { failed(code); return; }
    consort_free(client);
    consort_session_free(session);
    client = opened;
    session = NULL;
    printf("ok name=%s node=%u message_max=%" PRIu32 "\n", consort_name(client), consort_node(client),
           consort_message_max(client));
}

static void connect_session(char **words, int count) {
    consort_session *opened = NULL;
    consort_code code = consort_session_connect((const char *const *)words, (size_t)count, NULL, &opened);
    if (code != CONSORT_OK) { failed(code); return; }
    consort_free(client);
    consort_session_free(session);
    client = NULL;
    session = opened;
    done(code);
}

/* A payload as it is written: hexadecimal, `-` for none, `5a*9` for nine times the same. Null where it is none. */
static uint8_t *payload_of(char *written, size_t *len) {
    char *star = strchr(written, '*');
    if (star) *star = 0;
    size_t digits = strcmp(written, "-") == 0 ? 0 : strlen(written);
    *len = star ? strtoull(star + 1, NULL, 10) : digits / 2;
    uint8_t *bytes = malloc(*len + 1);
    for (size_t i = 0; i < *len; i++) {
        unsigned byte;
        if (star && i > 0) {
            bytes[i] = bytes[0];
        } else if (sscanf(written + 2 * i, "%2x", &byte) == 1) {
            bytes[i] = (uint8_t)byte;
        } else {
            free(bytes);
            return NULL;
        }
    }
    return bytes;
}

static void send_to(char **words, int count) {
    if (count < 2) { wrong("no service or no payload"); return; }
    int32_t service = 5;
    while (service > 0 && strcmp(services[service], words[0]) != 0) service--;
    size_t len;
    uint8_t *payload = payload_of(words[1], &len);
    if (!payload) { wrong("no payload"); return; }
    uint64_t send = 0;
    const char *const *targets = (const char *const *)words + 2;
    consort_code code;
    if (session) code = consort_session_send(session, service, targets, (size_t)count - 2, payload, len, &send);
    else code = consort_multicast(client, service, targets, (size_t)count - 2, payload, len, &send);
    free(payload);
    if (code == CONSORT_OK && client) code = consort_flush(client);
    sent(code, send);
}

static void print_message(const char *kind, const consort_event *event) {
    size_t len;
    const uint8_t *payload = consort_event_payload(event, &len);
    printf("%s service=%s sender=%s length=%zu crc=%08" PRIx32 " to=", kind,
           NAME(services, consort_event_service(event)), consort_event_sender(event), len, crc32_of(payload, len));
    for (size_t i = 0; i < consort_event_group_count(event); i++)
        printf("%s%s", i > 0 ? "," : "", consort_event_group(event, i));
    uint64_t position, incarnation;
    if (consort_event_position(event, &position) && consort_event_sender_incarnation(event, &incarnation))
        printf(" position=%" PRIu64 " incarnation=%" PRIu64, position, incarnation);
    puts("");
}

static void print_group_view(const consort_event *event) {
    consort_member member;
    printf("group_view group=%s cause=%s closed=%s primary=%s changed=", consort_event_group(event, 0),
           NAME(causes, consort_event_cause(event)), consort_event_is_closed(event) ? "yes" : "no",
           NAME(primaries, consort_event_primary(event)));
    for (size_t i = 0; consort_event_changed(event, i, &member); i++)
        printf("%s%s", i > 0 ? "," : "", member.private_name);
    printf(" members=");
    for (size_t i = 0; consort_event_member(event, i, &member); i++)
        printf("%s%s", i > 0 ? "," : "", member.private_name);
    puts("");
}

static void print_view(const consort_event *event) {
    consort_member member;
    printf("view kind=%s primary=%s members=", consort_event_is_transitional(event) ? "transitional" : "regular",
           NAME(primaries, consort_event_primary(event)));
    for (size_t i = 0; consort_event_member(event, i, &member); i++) printf("%sn%u", i > 0 ? "," : "", member.node);
    printf(" : %s\n", consort_event_text(event));
}

static void receive_within(int64_t milliseconds) {
    consort_event *event;
    consort_code code = session ? consort_session_receive(session, milliseconds, &event)
                                : consort_receive(client, milliseconds, &event);
    if (code == CONSORT_NOTHING) { puts("none"); return; }
    if (code != CONSORT_OK) { failed(code); return; }
    switch (consort_event_get_kind(event)) {
    case CONSORT_EVENT_MESSAGE: print_message("message", event); break;
    case CONSORT_EVENT_READ: print_message("read", event); break;
    case CONSORT_EVENT_CAUGHT_UP: puts("caught_up"); break;
    case CONSORT_EVENT_GAP: puts("gap"); break;
    case CONSORT_EVENT_PARTED: puts("parted"); break;
    case CONSORT_EVENT_READING_ENDED: puts("reading_ended"); break;
    case CONSORT_EVENT_CONNECTED: printf("connected : %s\n", consort_event_text(event)); break;
    case CONSORT_EVENT_LOST: printf("lost : %s\n", consort_event_text(event)); break;
    case CONSORT_EVENT_SENT:
        printf("sent send=%" PRIu64 " fate=%s\n", consort_event_send(event), NAME(fates, consort_event_fate(event)));
        break;
    case CONSORT_EVENT_GROUP_VIEW: print_group_view(event); break;
    case CONSORT_EVENT_GROUP_SIGNAL: printf("group_signal group=%s\n", consort_event_group(event, 0)); break;
    case CONSORT_EVENT_VIEW: print_view(event); break;
    case CONSORT_EVENT_REFUSED:
        printf("refused send=%" PRIu64 " cause=%s : %s\n", consort_event_send(event),
               NAME(refusals, consort_event_refusal(event)), consort_event_text(event));
        break;
    default: puts("other");
    }
    consort_event_free(event);
}

static void close_it(void) {
    consort_code code = consort_close(client, CLOSE);
    consort_free(client);
    client = NULL;
    done(code);
}

static void close_session(void) {
    consort_code code = consort_session_close(session, CLOSE);
    consort_session_free(session);
    session = NULL;
    done(code);
}

static void ask_session(const char *request, char **words, int count) {
    const char *word = count > 0 ? words[0] : "";
    if (strcmp(request, "join") == 0) done(consort_session_join(session, word));
    else if (strcmp(request, "leave") == 0) done(consort_session_leave(session, word));
    else if (strcmp(request, "read") == 0 && count > 0)
        done(consort_session_read(session, (const char *const *)words + 1, (size_t)count - 1, word));
    else if (strcmp(request, "send") == 0) send_to(words, count);
    else if (strcmp(request, "receive") == 0) receive_within(atoll(word));
    else if (strcmp(request, "wait") == 0) done(consort_session_settle(session, atoll(word)));
    else if (strcmp(request, "close") == 0) close_session();
    else wrong("no request");
}

static void answer(const char *request, char **words, int count) {
    const char *word = count > 0 ? words[0] : "";
    if (strcmp(request, "has") == 0 && strcmp(word, "session") == 0) { done(CONSORT_OK); return; }
    if (strcmp(request, "session") == 0) { connect_session(words, count); return; }
    if (strcmp(request, "connect") == 0) { connect_to(words, count); return; }
    if (session) { ask_session(request, words, count); return; }
    if (!client) { puts("error kind=closed : there is no session"); return; }
    if (strcmp(request, "join") == 0) sent_to_group(consort_join, word);
    else if (strcmp(request, "join_closed") == 0) sent_to_group(consort_join_closed, word);
    else if (strcmp(request, "leave") == 0) sent_to_group(consort_leave, word);
    else if (strcmp(request, "send") == 0) send_to(words, count);
    else if (strcmp(request, "receive") == 0) receive_within(atoll(word));
    else if (strcmp(request, "wait") == 0) done(consort_wait_ordered(client, atoll(word)));
    else if (strcmp(request, "close") == 0) close_it();
    else wrong("no request");
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char *words[WORDS_MOST];
        int count = 0;
        for (char *word = strtok(line, " \n"); word && count < WORDS_MOST; word = strtok(NULL, " \n"))
            words[count++] = word;
        if (count > 0) answer(words[0], words + 1, count - 1);
        fflush(stdout);
    }
    free(line);
    consort_free(client);
    consort_session_free(session);
    return 0;
}

/* A session whose daemon is killed, and wrong calls of sessions.
 *
 *   session A B C      addresses of three daemons; A is killed when "kill A" is printed, and a line answers that
 */
#include "check.h"
#include <stdlib.h>

#define LONG 50000
#define SENDS 200

static const char *const group = "feed";

/* The next event of a kind; others are passed over. */
static consort_event *next(consort_session *session, consort_event_kind kind) {
    for (;;) {
        consort_event *event;
        line = __LINE__, check(consort_session_receive(session, LONG, &event), CONSORT_OK, NULL);
        if (consort_event_get_kind(event) == kind) return event;
        consort_event_free(event);
    }
}

static void skip_to(consort_session *session, consort_event_kind kind) {
    consort_event_free(next(session, kind));
}

static void wrong_sessions_are_refused(const char *const *daemons) {
    consort_session *session;
    consort_event *event;
    const char *holes[] = {daemons[0], NULL}, *nowhere[] = {daemons[0], "nowhere"}, *nobody[] = {"/nowhere/at/all"};
    SAYS(consort_session_connect(daemons, 0, NULL, &session), CONSORT_INVALID, "0 daemons are named");
    SAYS(consort_session_connect(NULL, 1, NULL, &session), CONSORT_INVALID, "`daemons` is null");
    SAYS(consort_session_connect(holes, 2, NULL, &session), CONSORT_INVALID, "`daemons[1]` is null");
    SAYS(consort_session_connect(nowhere, 2, NULL, &session), CONSORT_INVALID, "`nowhere` is no address");
    SAYS(consort_session_connect(daemons, 1, NULL, NULL), CONSORT_INVALID, "`session` is null");
    HOLDS(session == NULL && consort_session_producer(NULL) == NULL);
    SAYS(consort_session_receive(NULL, 0, &event), CONSORT_INVALID, "`session` is null");
    SAYS(consort_session_close(NULL, 0), CONSORT_INVALID, "`session` is null");
    consort_session_free(NULL);

    consort_options *options = consort_options_new();
    SAYS(consort_options_set_producer(options, "0123"), CONSORT_INVALID, "is no producer");
    SAYS(consort_options_set_producer(options, NULL), CONSORT_INVALID, "`producer` is null");
    SAYS(consort_options_set_slow(options, 9, 0, -1), CONSORT_INVALID, "9 is no policy");
    SAYS(consort_options_set_reconnect_within(options, 0), CONSORT_INVALID, "give at least 1");
    IS(consort_options_set_reconnect_within(options, 200), CONSORT_OK);
    SAYS(consort_session_connect(nobody, 1, options, &session), CONSORT_UNREACHABLE, "within 200ms");
    IS(consort_options_set_host_timeout(options, 1), CONSORT_OK);
    SAYS(consort_session_connect(daemons, 3, options, &session), CONSORT_INVALID, "host_timeout is 1ms");
    consort_options_free(options);
}

static void wrong_requests_are_refused(consort_session *session) {
    consort_event *event;
    const char *bad = "two words";
    char bookmark[CONSORT_BOOKMARK_MAX] = "x";
    IS(consort_session_bookmark(session, bookmark, sizeof bookmark), CONSORT_NOTHING);
    HOLDS(strcmp(bookmark, "") == 0);
    SAYS(consort_session_bookmark(session, NULL, 9), CONSORT_INVALID, "`bookmark` is null");
    SAYS(consort_session_read(session, &group, 1, "yesterday"), CONSORT_INVALID, "is no place to read from");
    SAYS(consort_session_read(session, &group, 1, NULL), CONSORT_INVALID, "`from` is null");
    SAYS(consort_session_read(session, &group, 0, "start"), CONSORT_TARGETS, "a reading of 0 groups");
    SAYS(consort_session_read(session, &bad, 1, "start"), CONSORT_INVALID, "0x20 at 3");
    SAYS(consort_session_send(session, 9, &group, 1, "x", 1, NULL), CONSORT_INVALID, "9 is no service");
    SAYS(consort_session_send(session, CONSORT_SAFE, &group, 0, "x", 1, NULL), CONSORT_TARGETS, "to 0 groups");
    SAYS(consort_session_join(session, bad), CONSORT_INVALID, "0x20 at 3");
    SAYS(consort_session_outcome(session, 7, 0, &event), CONSORT_INVALID, "send 7: no fate");
    SAYS(consort_session_unsettled(session, NULL), CONSORT_INVALID, "`count` is null");
    HOLDS(event == NULL);
}

static void send_numbers(consort_session *session, uint32_t first, uint32_t last) {
    for (uint32_t n = first; n <= last; n++) {
        uint64_t send;
        IS(consort_session_send(session, CONSORT_AGREED, &group, 1, &n, sizeof n, &send), CONSORT_OK);
        HOLDS(send == n);
    }
    IS(consort_session_settle(session, LONG), CONSORT_OK);
    size_t unsettled = 1;
    IS(consort_session_unsettled(session, &unsettled), CONSORT_OK);
    HOLDS(unsettled == 0);
}

/* Receives until the last number was read: each once, in order, and one fate for each send. Keeps the bookmark behind
 * the number in the middle. */
static void receives_each_once(consort_session *session, char *middle) {
    uint32_t read = 0, fates = 0, connected = 1, lost = 0;
    while (read < SENDS || fates < SENDS || connected < 2) {
        consort_event *event;
        consort_place place;
        IS(consort_session_receive(session, LONG, &event), CONSORT_OK);
        switch (consort_event_get_kind(event)) {
        case CONSORT_EVENT_READ: {
            size_t len;
            uint32_t n;
            memcpy(&n, consort_event_payload(event, &len), sizeof n);
            HOLDS(len == sizeof n && n == ++read);
            HOLDS(consort_event_place(event, &place) && place.position > 0 && place.view == 0);
            if (n == SENDS / 2) IS(consort_session_bookmark(session, middle, CONSORT_BOOKMARK_MAX), CONSORT_OK);
            break;
        }
        case CONSORT_EVENT_SENT:
            HOLDS(consort_event_send(event) == ++fates && consort_event_fate(event) == CONSORT_FATE_ORDERED);
            break;
        case CONSORT_EVENT_CONNECTED: connected++; break;
        case CONSORT_EVENT_LOST:
            lost++;
            HOLDS(strlen(consort_event_text(event)) > 0);
            break;
        case CONSORT_EVENT_GAP:
        case CONSORT_EVENT_PARTED:
        case CONSORT_EVENT_READING_ENDED: fail("the reading has a hole");
        default: break;
        }
        consort_event_free(event);
    }
    HOLDS(lost + 1 == connected);
}

/* Another session goes on behind a bookmark, and is told what is beyond the end. */
static void another_reads_on(const char *const *daemons, const char *bookmark) {
    consort_session *session;
    uint64_t oldest, newest;
    IS(consort_session_connect(daemons, 2, NULL, &session), CONSORT_OK);
    IS(consort_session_read(session, &group, 1, bookmark), CONSORT_OK);
    consort_event *event = next(session, CONSORT_EVENT_READ);
    uint32_t n;
    memcpy(&n, consort_event_payload(event, NULL), sizeof n);
    HOLDS(n == SENDS / 2 + 1 && strcmp(consort_event_group(event, 0), group) == 0);
    consort_event_free(event);
    char small[4];
    SAYS(consort_session_bookmark(session, small, sizeof small), CONSORT_INVALID, "there is room for 4");
    IS(consort_session_read(session, &group, 1, "999999999"), CONSORT_OK);
    do {
        event = next(session, CONSORT_EVENT_READING_ENDED);
        n = (uint32_t)consort_event_reading_end(event);
        HOLDS(consort_event_retained(event, &oldest, &newest) && strlen(consort_event_text(event)) > 0);
        consort_event_free(event);
    } while (n == CONSORT_READING_ENDED);
    HOLDS(n == CONSORT_READING_BEYOND_END && 0 < oldest && oldest <= newest);
    IS(consort_session_close(session, LONG), CONSORT_OK);
    consort_session_free(session);
}

/* Another session goes on with the producer, and stops this one. */
static void another_takes_over(const char *const *daemons, consort_session *first) {
    consort_options *options = consort_options_new();
    consort_session *second;
    consort_event *event;
    uint64_t send, ordered;
    IS(consort_options_set_producer(options, consort_session_producer(first)), CONSORT_OK);
    IS(consort_session_connect(daemons, 2, options, &second), CONSORT_OK);
    consort_options_free(options);
    event = next(second, CONSORT_EVENT_RESUMED);
    HOLDS(consort_event_resumed(event, &ordered) && ordered == SENDS);
    consort_event_free(event);
    IS(consort_session_send(second, CONSORT_AGREED, &group, 1, "x", 1, &send), CONSORT_OK);
    IS(consort_session_outcome(second, send, LONG, &event), CONSORT_OK);
    HOLDS(consort_event_fate(event) == CONSORT_FATE_ORDERED && consort_event_send(event) == send);
    consort_event_free(event);
    SAYS(consort_session_outcome(second, send, LONG, &event), CONSORT_INVALID, "it was told");
    IS(consort_session_send(first, CONSORT_AGREED, &group, 1, "x", 1, NULL), CONSORT_OK);
    SAYS(consort_session_settle(first, LONG), CONSORT_TAKEN_OVER, "another session sends as this one's producer");
    IS(consort_session_close(second, LONG), CONSORT_OK);
    while (consort_session_receive(second, LONG, &event) == CONSORT_OK) consort_event_free(event);
    SAYS(consort_session_receive(second, 0, &event), CONSORT_WRONG_HALF, "was closed and does not receive");
    SAYS(consort_session_close(second, 0), CONSORT_WRONG_HALF, "was closed and does not close");
    consort_session_free(second);
}

/* A client reads by position, too. */
static void a_client_reads(const char *daemon) {
    consort_client *client;
    consort_options *options = consort_options_new();
    consort_event *event;
    char bookmark[CONSORT_BOOKMARK_MAX];
    IS(consort_options_set_slow(options, CONSORT_SLOW_BLOCK, 0, -1), CONSORT_OK);
    IS(consort_connect(daemon, options, &client), CONSORT_NOT_WELCOME);
    HOLDS(consort_last_reason() == CONSORT_REASON_NOT_ALLOWED);
    IS(consort_options_set_slow(options, CONSORT_SLOW_DEMOTE, 100000, 5000), CONSORT_OK);
    IS(consort_connect(daemon, options, &client), CONSORT_OK);
    consort_options_free(options);
    SAYS(consort_read(client, NULL, 1, "start"), CONSORT_INVALID, "`groups` is null");
    IS(consort_read(client, &group, 1, "start"), CONSORT_OK);
    consort_event_kind kind;
    int read = 0;
    do {
        IS(consort_receive(client, LONG, &event), CONSORT_OK);
        kind = consort_event_get_kind(event);
        read += kind == CONSORT_EVENT_READ;
        consort_event_free(event);
    } while (kind != CONSORT_EVENT_CAUGHT_UP);
    HOLDS(read >= SENDS);
    IS(consort_bookmark(client, bookmark, sizeof bookmark), CONSORT_OK);
    IS(consort_stop_reading(client), CONSORT_OK);
    IS(consort_receive(client, LONG, &event), CONSORT_OK);
    HOLDS(consort_event_reading_end(event) == CONSORT_READING_ENDED && strchr(bookmark, ':'));
    consort_event_free(event);
    IS(consort_close(client, LONG), CONSORT_OK);
    consort_free(client);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const char *const *daemons = (const char *const *)argv + 1;
    consort_session *session;
    char middle[CONSORT_BOOKMARK_MAX];
    wrong_sessions_are_refused(daemons);
    IS(consort_session_connect(daemons, 3, NULL, &session), CONSORT_OK);
    HOLDS(strlen(consort_session_producer(session)) == 32);
    wrong_requests_are_refused(session);
    IS(consort_session_join(session, group), CONSORT_OK);
    IS(consort_session_leave(session, group), CONSORT_OK);
    IS(consort_session_read(session, &group, 1, "new"), CONSORT_OK);
    consort_event *connected = next(session, CONSORT_EVENT_CONNECTED);
    HOLDS(strstr(consort_event_text(connected), daemons[0]) != NULL);
    consort_event_free(connected);
    skip_to(session, CONSORT_EVENT_CAUGHT_UP);
    send_numbers(session, 1, SENDS / 2);
    puts("kill A");
    fflush(stdout);
    if (getchar() == EOF) fail("nobody answers");
    send_numbers(session, SENDS / 2 + 1, SENDS);
    receives_each_once(session, middle);
    another_reads_on(daemons + 1, middle);
    a_client_reads(daemons[1]);
    another_takes_over(daemons + 1, session);
    consort_session_free(session);
    puts("each once");
    return 0;
}

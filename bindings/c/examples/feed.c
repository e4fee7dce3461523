/* Sends each line of its input to a group, once, whichever of the daemons are lost meanwhile.
 *
 *   cc feed.c $(pkg-config --cflags --libs consort) -o feed
 *   ./feed orders 10.0.0.1:4840 10.0.0.2:4840 10.0.0.3:4840 < lines
 */
#include <consort.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, consort_last_error());
    return 1;
}

/* Prints an event; true if a send is ordered. */
static bool ordered(const consort_event *event) {
    switch (consort_event_get_kind(event)) {
    case CONSORT_EVENT_CONNECTED:
    case CONSORT_EVENT_LOST:
    case CONSORT_EVENT_WAITS: printf("# %s\n", consort_event_text(event)); return false;
    case CONSORT_EVENT_SENT:
        if (consort_event_fate(event) == CONSORT_FATE_ORDERED) return true;
        printf("line %" PRIu64 " is not known to be ordered\n", consort_event_send(event));
        return false;
    default: return false;
    }
}

static int feed(consort_session *session, const char *group) {
    char line[4096];
    uint64_t sent = 0, done = 0;
    while (fgets(line, sizeof line, stdin)) {
        size_t len = strcspn(line, "\n");
        if (consort_session_send(session, CONSORT_AGREED, &group, 1, line, len, &sent) != CONSORT_OK)
            return failed("send");
    }
    if (consort_session_close(session, -1) != CONSORT_OK) return failed("close");
    consort_event *event;
    while (consort_session_receive(session, 0, &event) == CONSORT_OK) {
        done += ordered(event);
        consort_event_free(event);
    }
    printf("%" PRIu64 " of %" PRIu64 " ordered\n", done, sent);
    return done == sent ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s GROUP DAEMON...\n", argv[0]);
        return 2;
    }
    consort_session *session;
    const char *const *daemons = (const char *const *)argv + 2;
    if (consort_session_connect(daemons, (size_t)argc - 2, NULL, &session) != CONSORT_OK) return failed("connect");
    int code = feed(session, argv[1]);
    consort_session_free(session);
    return code;
}

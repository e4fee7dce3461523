/* Joins a group, says something, and prints what is heard until it hears itself.
 *
 *   cc talk.c $(pkg-config --cflags --libs consort) -o talk
 *   ./talk 127.0.0.1:4840 lobby "a pound of tea"
 */
#include <consort.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, consort_last_error());
    return 1;
}

/* Prints an event; true if it is this client's own message. */
static bool heard(const consort_client *client, const consort_event *event) {
    switch (consort_event_get_kind(event)) {
    case CONSORT_EVENT_MESSAGE: {
        size_t len;
        const uint8_t *payload = consort_event_payload(event, &len);
        const char *sender = consort_event_sender(event);
        printf("%s says %.*s\n", sender, (int)len, len > 0 ? (const char *)payload : "");
        return strcmp(sender, consort_private_name(client)) == 0;
    }
    case CONSORT_EVENT_GROUP_VIEW:
        printf("%zu in %s\n", consort_event_member_count(event), consort_event_group(event, 0));
        return false;
    case CONSORT_EVENT_REFUSED:
        printf("send %llu refused: %s\n", (unsigned long long)consort_event_send(event), consort_event_text(event));
        return false;
    default:
        return false;
    }
}

static int talk(consort_client *client, const char *group, const char *text) {
    if (consort_join(client, group, NULL) != CONSORT_OK) return failed("join");
    if (consort_multicast(client, CONSORT_AGREED, &group, 1, text, strlen(text), NULL) != CONSORT_OK)
        return failed("multicast");
    for (;;) {
        consort_event *event;
        if (consort_receive(client, -1, &event) != CONSORT_OK) return failed("receive");
        bool done = heard(client, event);
        consort_event_free(event);
        if (done) return consort_close(client, 5000) == CONSORT_OK ? 0 : failed("close");
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: %s ADDRESS GROUP TEXT\n", argv[0]);
        return 2;
    }
    consort_client *client;
    if (consort_connect(argv[1], NULL, &client) != CONSORT_OK) return failed("connect");
    int code = talk(client, argv[2], argv[3]);
    consort_free(client);
    return code;
}

/* Wrong calls: each returns its code and says why, and the client serves on.
 *
 *   refusals DAEMON NOBODY STRANGER      addresses: of a daemon, of nothing, of something that is no daemon
 */
#include "check.h"
#include <stdlib.h>

#define LONG 20000

static void null_is_refused(consort_client *client) {
    consort_event *event;
    consort_client *other;
    int fd;
    SAYS(consort_connect(NULL, NULL, &other), CONSORT_INVALID, "`address` is null");
    SAYS(consort_connect("/tmp/x", NULL, NULL), CONSORT_INVALID, "`client` is null");
    SAYS(consort_join(NULL, "g", NULL), CONSORT_INVALID, "`client` is null");
    SAYS(consort_join(client, NULL, NULL), CONSORT_INVALID, "`group` is null");
    SAYS(consort_leave(NULL, NULL, NULL), CONSORT_INVALID, "is null");
    SAYS(consort_multicast(client, CONSORT_AGREED, NULL, 1, "x", 1, NULL), CONSORT_INVALID, "`targets` is null");
    const char *holes[] = {"g", NULL};
    SAYS(consort_multicast(client, CONSORT_AGREED, holes, 2, "x", 1, NULL), CONSORT_INVALID, "`targets[1]` is null");
    SAYS(consort_multicast(client, CONSORT_AGREED, holes, 1, NULL, 3, NULL), CONSORT_INVALID, "has 3 bytes");
    SAYS(consort_multicast(client, CONSORT_AGREED, holes, 1, "x", SIZE_MAX, NULL), CONSORT_INVALID, "memory can hold");
    SAYS(consort_multicast(client, CONSORT_AGREED, holes, SIZE_MAX, "x", 1, NULL), CONSORT_TARGETS, "no daemon");
    SAYS(consort_receive(client, 0, NULL), CONSORT_INVALID, "`event` is null");
    SAYS(consort_receive(NULL, 0, &event), CONSORT_INVALID, "`client` is null");
    HOLDS(event == NULL);
    SAYS(consort_try_receive(NULL, &event), CONSORT_INVALID, "is null");
    SAYS(consort_flush(NULL), CONSORT_INVALID, "is null");
    SAYS(consort_wait_ordered(NULL, 0), CONSORT_INVALID, "is null");
    SAYS(consort_progress(NULL, NULL, NULL), CONSORT_INVALID, "is null");
    SAYS(consort_close(NULL, 0), CONSORT_INVALID, "is null");
    SAYS(consort_split(NULL, &other), CONSORT_INVALID, "is null");
    SAYS(consort_split(client, NULL), CONSORT_INVALID, "is null");
    SAYS(consort_fd(NULL, &fd), CONSORT_INVALID, "is null");
    HOLDS(fd == -1);
    SAYS(consort_options_set_name(NULL, "ann"), CONSORT_INVALID, "`options` is null");
    consort_free(NULL);
    consort_event_free(NULL);
    consort_options_free(NULL);
}

static void nothing_is_told_of_null(void) {
    size_t len = 7;
    uint64_t number = 7;
    consort_member member;
    consort_view_id id;
    HOLDS(consort_event_get_kind(NULL) == CONSORT_EVENT_NONE);
    HOLDS(consort_event_payload(NULL, &len) == NULL && len == 0);
    HOLDS(!consort_event_position(NULL, &number) && number == 0);
    HOLDS(!consort_event_member(NULL, 0, &member) && !consort_event_changed(NULL, 0, &member));
    HOLDS(!consort_event_view_id(NULL, &id));
    HOLDS(consort_event_sender(NULL) == NULL && consort_event_group(NULL, 0) == NULL && consort_event_text(NULL) == NULL);
    HOLDS(consort_name(NULL) == NULL && consort_private_name(NULL) == NULL && consort_message_max(NULL) == 0);
}

static void names_and_numbers_are_checked(consort_client *client) {
    char long_name[66] = {0};
    memset(long_name, 'x', 65);
    const char *g = "g", *nobody = "#bob", *bad = "a b";
    SAYS(consort_join(client, "", NULL), CONSORT_INVALID, "is empty");
    SAYS(consort_join(client, "#g", NULL), CONSORT_INVALID, "no # at the start");
    SAYS(consort_join(client, "t\xc3\xa9", NULL), CONSORT_INVALID, "0xc3 at 1");
    SAYS(consort_join_closed(client, "\xff\xfe", NULL), CONSORT_INVALID, "0xff at 0");
    SAYS(consort_leave(client, long_name, NULL), CONSORT_INVALID, "65 bytes");
    SAYS(consort_multicast(client, CONSORT_AGREED, &nobody, 1, "x", 1, NULL), CONSORT_INVALID, "#name#nNODE");
    SAYS(consort_multicast(client, CONSORT_AGREED, &bad, 1, "x", 1, NULL), CONSORT_INVALID, "0x20 at 1");
    SAYS(consort_multicast(client, 0, &g, 1, "x", 1, NULL), CONSORT_INVALID, "0 is no service");
    SAYS(consort_multicast(client, 6, &g, 1, "x", 1, NULL), CONSORT_INVALID, "6 is no service");
    SAYS(consort_try_multicast(client, -1, &g, 1, "x", 1, NULL), CONSORT_INVALID, "-1 is no service");
    SAYS(consort_multicast(client, 260, &g, 1, "x", 1, NULL), CONSORT_INVALID, "260 is no service");
    SAYS(consort_multicast(client, CONSORT_SAFE, NULL, 0, "x", 1, NULL), CONSORT_TARGETS, "to 0 groups");
    size_t max = consort_message_max(client);
    char *large = calloc(max + 1, 1);
    SAYS(consort_multicast(client, CONSORT_SAFE, &g, 1, large, max + 1, NULL), CONSORT_TOO_LARGE, "allows");
    free(large);
    consort_options *options = consort_options_new();
    SAYS(consort_options_set_name(options, "a b"), CONSORT_INVALID, "no name for a client");
    SAYS(consort_options_set_name(options, "\xff"), CONSORT_INVALID, "no UTF-8");
    SAYS(consort_options_set_connect_within(options, -1), CONSORT_INVALID, "at least 1");
    SAYS(consort_options_set_host_timeout(options, 0), CONSORT_INVALID, "at least 1");
    consort_options_free(options);
}

static void daemons_that_are_none(const char *daemon, const char *nobody, const char *stranger) {
    consort_client *client = (consort_client *)&line;
    SAYS(consort_connect("nowhere", NULL, &client), CONSORT_INVALID, "there is no port");
    HOLDS(client == NULL);
    SAYS(consort_connect("\xff\xff/x", NULL, &client), CONSORT_INVALID, "no UTF-8");
    SAYS(consort_connect(nobody, NULL, &client), CONSORT_CANNOT_CONNECT, "is a daemon running there?");
    SAYS(consort_connect(stranger, NULL, &client), CONSORT_NO_DAEMON, "does not answer like a Consort daemon");
    consort_options *options = consort_options_new();
    IS(consort_options_set_name(options, "taken"), CONSORT_OK);
    consort_client *first;
    IS(consort_connect(daemon, options, &first), CONSORT_OK);
    SAYS(consort_connect(daemon, options, &client), CONSORT_NOT_WELCOME, "taken");
    HOLDS(consort_last_reason() == CONSORT_REASON_NAME_TAKEN);
    IS(consort_options_set_host_timeout(options, 999), CONSORT_OK);
    SAYS(consort_connect(daemon, options, &client), CONSORT_INVALID, "host_timeout is 999ms; give a time from 1s");
    consort_options_free(options);
    consort_free(first);
}

/* The next event of a kind; others are passed over. */
static consort_event *next(consort_client *client, consort_event_kind kind) {
    for (;;) {
        consort_event *event;
        line = __LINE__, check(consort_receive(client, LONG, &event), CONSORT_OK, NULL);
        if (consort_event_get_kind(event) == kind) return event;
        consort_event_free(event);
    }
}

static void a_refusal_names_its_send(consort_client *client) {
    uint64_t send = 0;
    IS(consort_leave(client, "strange", &send), CONSORT_OK);
    consort_event *event = next(client, CONSORT_EVENT_REFUSED);
    HOLDS(consort_event_send(event) == send && send > 0);
    HOLDS(consort_event_refusal(event) == CONSORT_REFUSED_NOT_MEMBER);
    HOLDS(strlen(consort_event_text(event)) > 0);
    HOLDS(consort_event_service(event) == 0 && consort_event_member_count(event) == 0);
    consort_event_free(event);
}

static void halves_do_their_own_and_nothing_else(consort_client *whole) {
    consort_client *receiver, *again;
    consort_event *event;
    const char *g = "halves";
    IS(consort_split(whole, &receiver), CONSORT_OK);
    SAYS(consort_split(whole, &again), CONSORT_WRONG_HALF, "does not split");
    SAYS(consort_receive(whole, 0, &event), CONSORT_WRONG_HALF, "does not receive");
    SAYS(consort_join(receiver, g, NULL), CONSORT_WRONG_HALF, "does not send");
    SAYS(consort_close(receiver, 0), CONSORT_WRONG_HALF, "does not close");
    HOLDS(strcmp(consort_name(whole), consort_name(receiver)) == 0);
    IS(consort_join(whole, g, NULL), CONSORT_OK);
    IS(consort_multicast(whole, CONSORT_SAFE, &g, 1, NULL, 0, NULL), CONSORT_OK);
    IS(consort_flush(whole), CONSORT_OK);
    event = next(receiver, CONSORT_EVENT_MESSAGE);
    size_t len = 1;
    HOLDS(consort_event_payload(event, &len) == NULL && len == 0);
    consort_event_free(event);
    IS(consort_close(whole, LONG), CONSORT_OK);
    SAYS(consort_flush(whole), CONSORT_WRONG_HALF, "was closed");
    consort_code code;
    while ((code = consort_receive(receiver, LONG, &event)) == CONSORT_OK) consort_event_free(event);
    IS(code, CONSORT_DISCONNECTED);
    HOLDS(consort_last_reason() == CONSORT_REASON_GOODBYE);
    uint64_t first;
    HOLDS(consort_last_unknown_fate(&first) == 0);
    consort_free(receiver);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    HOLDS(strcmp(consort_last_error(), "") == 0 && consort_last_reason() == 0);
    consort_client *client;
    int fd;
    IS(consort_connect(argv[1], NULL, &client), CONSORT_OK);
    null_is_refused(client);
    nothing_is_told_of_null();
    names_and_numbers_are_checked(client);
    daemons_that_are_none(argv[1], argv[2], argv[3]);
    SAYS(consort_fd(client, &fd), CONSORT_UNSUPPORTED, "shares memory");
    a_refusal_names_its_send(client);
    halves_do_their_own_and_nothing_else(client);
    consort_free(client);
    puts("all refused");
    return 0;
}

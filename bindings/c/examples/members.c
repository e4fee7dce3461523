/* Joins a group and prints who is in it, each time that changes. Waits with poll(), as a program that has other things
 * to wait for would.
 *
 *   cc members.c $(pkg-config --cflags --libs consort) -o members
 *   ./members 127.0.0.1:4840 lobby          for as long as it runs
 *   ./members 127.0.0.1:4840 lobby 3        three lists, then it ends
 */
#include <consort.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const causes[] = {"", "join", "leave", "disconnect", "network", "primary"};

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, consort_last_error());
    return 1;
}

static void print(const consort_event *view) {
    int32_t cause = consort_event_cause(view);
    printf("%s after %s:", consort_event_group(view, 0), cause >= 1 && cause <= 5 ? causes[cause] : "a change");
    consort_member member;
    for (size_t i = 0; consort_event_member(view, i, &member); i++) printf(" %s", member.private_name);
    printf("\n");
    fflush(stdout);
}

/* Takes all events that are here; how many of them were lists of members, or -1. */
static int take(consort_client *client, int most) {
    int lists = 0;
    while (lists < most) {
        consort_event *event;
        consort_code code = consort_try_receive(client, &event);
        if (code == CONSORT_NOTHING) break;
        if (code != CONSORT_OK) return -1;
        if (consort_event_get_kind(event) == CONSORT_EVENT_GROUP_VIEW) {
            print(event);
            lists++;
        }
        consort_event_free(event);
    }
    return lists;
}

static int watch(consort_client *client, const char *group, int lists) {
    if (consort_join(client, group, NULL) != CONSORT_OK) return failed("join");
    int fd;
    if (consort_fd(client, &fd) != CONSORT_OK) return failed("fd");
    for (int told = 0; told < lists;) {
        int more = take(client, lists - told);
        if (more < 0) return failed("receive");
        told += more;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (told < lists && poll(&ready, 1, -1) < 0) return perror("poll"), 1;
    }
    return consort_close(client, 5000) == CONSORT_OK ? 0 : failed("close");
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) {
        fprintf(stderr, "usage: %s ADDRESS GROUP [LISTS]\n", argv[0]);
        return 2;
    }
    consort_options *options = consort_options_new();
    consort_options_set_shared_memory(options, false);
    consort_client *client;
    consort_code code = consort_connect(argv[1], options, &client);
    consort_options_free(options);
    if (code != CONSORT_OK) return failed("connect");
    int exit_code = watch(client, argv[2], argc == 4 ? atoi(argv[3]) : 2147483647);
    consort_free(client);
    return exit_code;
}

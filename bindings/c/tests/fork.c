/* A child of fork() neither sends nor ends what its parent owns, and the parent goes on as if there were no child.
 *
 *   fork client ADDRESS no-memory|memory      a client with sends that are not written yet
 *   fork halves ADDRESS no-memory|memory      a client that is split, while a thread waits in one half
 *   fork session ADDRESS...                   a session over several daemons
 */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#define LONG 20000
#define BEFORE 50
#define SENDS 300

static const char *const group = "forked";

#define FORKED(call) SAYS(call, CONSORT_FORKED, remedy())

/* What the child of this process is to be told. */
static const char *remedy(void) {
    static char text[100];
    snprintf(text, sizeof text, "made in process %d; make one in each process after fork()", getppid());
    return text;
}

static consort_client *connect_to(const char *address, bool memory) {
    consort_client *client;
    consort_options *options = consort_options_new();
    IS(consort_options_set_shared_memory(options, memory), CONSORT_OK);
    IS(consort_connect(address, options, &client), CONSORT_OK);
    consort_options_free(options);
    return client;
}

static void multicast(consort_client *client, char from, uint32_t first, uint32_t end) {
    char payload[1200] = {from};
    for (uint32_t n = first; n < end; n++) {
        memcpy(payload + 1, &n, sizeof n);
        IS(consort_multicast(client, CONSORT_AGREED, &group, 1, payload, sizeof payload, NULL), CONSORT_OK);
    }
}

/* Every call answers that the client is the parent's. */
static void client_answers_no_call(consort_client *client) {
    consort_event *event;
    consort_client *receiver;
    uint64_t number;
    char bookmark[CONSORT_BOOKMARK_MAX];
    int fd;
    FORKED(consort_multicast(client, CONSORT_AGREED, &group, 1, "x", 1, NULL));
    FORKED(consort_try_multicast(client, CONSORT_AGREED, &group, 1, "x", 1, NULL));
    FORKED(consort_join(client, "other", NULL));
    FORKED(consort_join_closed(client, "other", NULL));
    FORKED(consort_leave(client, group, NULL));
    FORKED(consort_flush(client));
    FORKED(consort_wait_ordered(client, LONG));
    FORKED(consort_progress(client, &number, &number));
    FORKED(consort_receive(client, LONG, &event));
    FORKED(consort_try_receive(client, &event));
    FORKED(consort_read(client, &group, 1, "start"));
    FORKED(consort_stop_reading(client));
    FORKED(consort_bookmark(client, bookmark, sizeof bookmark));
    FORKED(consort_fd(client, &fd));
    FORKED(consort_split(client, &receiver));
    FORKED(consort_close(client, LONG));
    FORKED(consort_close(client, LONG));
}

/* A child that uses what it inherited, and then makes a client of its own. */
static void child_of_a_client(consort_client *client, const char *address, bool memory) {
    client_answers_no_call(client);
    consort_free(client);
    consort_client *own = connect_to(address, memory);
    multicast(own, 'c', 0, 1);
    IS(consort_close(own, LONG), CONSORT_OK);
    consort_free(own);
    _exit(0);
}

static void await_child(pid_t child) {
    int status;
    HOLDS(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Receives all own sends, each once and in order, and as many of children. */
static void receive_each_once(consort_client *client, uint32_t children) {
    uint32_t own = 0, others = 0;
    while (own < SENDS || others < children) {
        consort_event *event;
        IS(consort_receive(client, LONG, &event), CONSORT_OK);
        if (consort_event_get_kind(event) == CONSORT_EVENT_MESSAGE) {
            size_t len;
            const uint8_t *payload = consort_event_payload(event, &len);
            uint32_t n;
            memcpy(&n, payload + 1, sizeof n);
            if (payload[0] == 'c') others++;
            else HOLDS(n == own++);
        }
        consort_event_free(event);
    }
    consort_event *more;
    IS(consort_receive(client, 200, &more), CONSORT_NOTHING);
}

static void a_client_stays_its_parents(const char *address, bool memory) {
    consort_client *client = connect_to(address, memory);
    IS(consort_join(client, group, NULL), CONSORT_OK);
    consort_event *view;
    IS(consort_receive(client, LONG, &view), CONSORT_OK);
    consort_event_free(view);
    multicast(client, 'p', 0, BEFORE);
    pid_t uses = fork();
    if (uses == 0) child_of_a_client(client, address, memory);
    await_child(uses);
    pid_t frees = fork();
    if (frees == 0) {
        consort_free(client);
        _exit(0);
    }
    await_child(frees);
    multicast(client, 'p', BEFORE, SENDS);
    IS(consort_flush(client), CONSORT_OK);
    receive_each_once(client, 1);
    IS(consort_close(client, LONG), CONSORT_OK);
    consort_free(client);
}

static void *receives(void *receiver) {
    receive_each_once(receiver, 0);
    return NULL;
}

/* A thread of the parent waits in one half: no thread of the child ever leaves it, so that the child's free() leaves it. */
static void halves_stay_their_parents(const char *address, bool memory) {
    consort_client *sender = connect_to(address, memory), *receiver;
    IS(consort_join(sender, group, NULL), CONSORT_OK);
    IS(consort_split(sender, &receiver), CONSORT_OK);
    pthread_t thread;
    HOLDS(pthread_create(&thread, NULL, receives, receiver) == 0);
    multicast(sender, 'p', 0, BEFORE);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    pid_t child = fork();
    if (child == 0) {
        consort_event *event;
        FORKED(consort_receive(receiver, LONG, &event));
        FORKED(consort_flush(sender));
        FORKED(consort_close(sender, LONG));
        consort_free(sender);
        consort_free(receiver);
        _exit(0);
    }
    await_child(child);
    multicast(sender, 'p', BEFORE, SENDS);
    IS(consort_flush(sender), CONSORT_OK);
    HOLDS(pthread_join(thread, NULL) == 0);
    IS(consort_close(sender, LONG), CONSORT_OK);
    consort_free(sender);
    consort_free(receiver);
}

static void session_answers_no_call(consort_session *session) {
    consort_event *event;
    size_t count;
    char bookmark[CONSORT_BOOKMARK_MAX];
    int fd;
    FORKED(consort_session_send(session, CONSORT_AGREED, &group, 1, "x", 1, NULL));
    FORKED(consort_session_join(session, "other"));
    FORKED(consort_session_leave(session, group));
    FORKED(consort_session_settle(session, LONG));
    FORKED(consort_session_outcome(session, 1, LONG, &event));
    FORKED(consort_session_unsettled(session, &count));
    FORKED(consort_session_read(session, &group, 1, "start"));
    FORKED(consort_session_bookmark(session, bookmark, sizeof bookmark));
    FORKED(consort_session_receive(session, LONG, &event));
    FORKED(consort_session_try_receive(session, &event));
    FORKED(consort_session_fd(session, &fd));
    FORKED(consort_session_close(session, LONG));
}

static void a_session_stays_its_parents(const char *const *daemons, size_t count) {
    consort_session *session;
    IS(consort_session_connect(daemons, count, NULL, &session), CONSORT_OK);
    for (uint32_t n = 0; n < SENDS; n++) {
        if (n == BEFORE) {
            pid_t child = fork();
            if (child == 0) {
                session_answers_no_call(session);
                consort_session_free(session);
                consort_session *own;
                IS(consort_session_connect(daemons, count, NULL, &own), CONSORT_OK);
                IS(consort_session_send(own, CONSORT_AGREED, &group, 1, "c", 1, NULL), CONSORT_OK);
                IS(consort_session_close(own, LONG), CONSORT_OK);
                consort_session_free(own);
                _exit(0);
            }
            await_child(child);
        }
        IS(consort_session_send(session, CONSORT_AGREED, &group, 1, &n, sizeof n, NULL), CONSORT_OK);
    }
    IS(consort_session_settle(session, LONG), CONSORT_OK);
    for (uint32_t fates = 0; fates < SENDS;) {
        consort_event *event;
        IS(consort_session_receive(session, LONG, &event), CONSORT_OK);
        HOLDS(consort_event_get_kind(event) != CONSORT_EVENT_LOST);
        if (consort_event_get_kind(event) == CONSORT_EVENT_SENT) {
            HOLDS(consort_event_send(event) == ++fates && consort_event_fate(event) == CONSORT_FATE_ORDERED);
        }
        consort_event_free(event);
    }
    IS(consort_session_close(session, LONG), CONSORT_OK);
    consort_session_free(session);
}

int main(int count, char **words) {
    if (count < 3) return 2;
    if (strcmp(words[1], "client") == 0) {
        bool memory = strcmp(words[3], "memory") == 0;
        a_client_stays_its_parents(words[2], memory);
    } else if (strcmp(words[1], "halves") == 0) {
        halves_stay_their_parents(words[2], strcmp(words[3], "memory") == 0);
    } else {
        a_session_stays_its_parents((const char *const *)words + 2, (size_t)count - 2);
    }
    puts("nothing twice, nothing lost");
}

/* TLS: right and wrong certificates, files that are of no use, and a session whose daemon is killed.
 *
 *   tls FOLDER UNIX A B C      UNIX and A are one daemon; A is killed when "kill A" is printed, and a line answers that.
 *                              FOLDER has the certificates.
 */
#include "check.h"
#include <dirent.h>
#include <poll.h>
#include <stdlib.h>

#define LONG 50000
#define LARGE (1 << 20)

static const char *folder;
static const char *const orders = "orders";

/* The path of a file of the folder; three are kept. */
static const char *at(const char *name) {
    static char paths[3][4096];
    static int next;
    if (!name) return NULL;
    char *path = paths[next++ % 3];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static consort_code set_tls(consort_options *options, const char *authority, const char *own, const char *key) {
    return consort_options_set_tls(options, at(authority), at(own), at(key));
}

static consort_options *tls(const char *authority, const char *own, const char *key) {
    consort_options *options = consort_options_new();
    IS(set_tls(options, authority, own, key), CONSORT_OK);
    return options;
}

static void files_of_no_use_are_named_with_line_and_remedy(void) {
    consort_options *options = consort_options_new();
    SAYS(consort_options_set_tls(options, NULL, NULL, NULL), CONSORT_INVALID, "`authority` is null");
    SAYS(consort_options_set_tls(NULL, "x", NULL, NULL), CONSORT_INVALID, "`options` is null");
    SAYS(set_tls(options, "daemons.pem", "own.pem", NULL), CONSORT_INVALID, "give both, or neither");
    SAYS(set_tls(options, "daemons.pem", NULL, "own.key"), CONSORT_INVALID, "give both, or neither");
    SAYS(set_tls(options, "missing", NULL, NULL), CONSORT_INVALID, "/missing: cannot be read: No such file");
    SAYS(set_tls(options, "own.key", NULL, NULL), CONSORT_INVALID, "/own.key: no certificate in PEM stands in it; name");
    SAYS(set_tls(options, "damaged.pem", NULL, NULL), CONSORT_INVALID, "/damaged.pem:2: the certificate is damaged");
    SAYS(set_tls(options, "daemons.pem", "damaged.pem", "own.key"), CONSORT_INVALID, "export it again");
    SAYS(set_tls(options, "daemons.pem", "own.pem", "own.pem"), CONSORT_INVALID, "/own.pem: no private key in PEM");
    SAYS(set_tls(options, "daemons.pem", "own.pem", "locked.key"), CONSORT_INVALID, "/locked.key:1: the private key is enc");
    SAYS(set_tls(options, "daemons.pem", "own.pem", "audit.key"), CONSORT_INVALID, "name the key of the certificate in ");
    SAYS(consort_options_set_tls_server_name(options, "x"), CONSORT_INVALID, "call consort_options_set_tls() first");
    IS(set_tls(options, "daemons.pem", NULL, NULL), CONSORT_OK);
    SAYS(consort_options_set_tls_server_name(options, NULL), CONSORT_INVALID, "`name` is null");
    SAYS(consort_options_set_tls_server_name(options, "two words"), CONSORT_INVALID, "give a DNS name or an IP address");
    consort_options_free(options);
}

static void fails(const char *daemon, consort_options *options, const char *text) {
    consort_client *client;
    SAYS(consort_connect(daemon, options, &client), CONSORT_CANNOT_CONNECT, " by TLS: ");
    HOLDS(client == NULL && strstr(consort_last_error(), text));
    consort_options_free(options);
}

static void failed_handshakes_say_why(const char *daemon) {
    char by_name[64];
    consort_client *client;
    snprintf(by_name, sizeof by_name, "localhost%s", strrchr(daemon, ':'));
    fails(daemon, tls("others.pem", "own.pem", "own.key"), "UnknownIssuer");
    fails(by_name, tls("daemons.pem", "own.pem", "own.key"), "localhost");
    fails(daemon, tls("daemons.pem", NULL, NULL), "CertificateRequired");
    fails(daemon, tls("daemons.pem", "wrong.pem", "wrong.key"), "UnknownCA");
    fails(daemon, tls("daemons.pem", "old.pem", "old.key"), "CertificateExpired");
    consort_options *options = tls("daemons.pem", "own.pem", "own.key");
    IS(consort_options_set_tls_server_name(options, "127.0.0.1"), CONSORT_OK);
    IS(consort_connect(by_name, options, &client), CONSORT_OK);
    consort_free(client);
    IS(consort_options_set_tls_server_name(options, "eu.example"), CONSORT_OK);
    fails(daemon, options, "eu.example");
    options = consort_options_new();
    HOLDS(consort_connect(daemon, options, &client) != CONSORT_OK && client == NULL);
    consort_options_free(options);
}

/* The next event of a kind; others are passed over. The program waits for it with poll(). */
static consort_event *next(consort_client *client, consort_event_kind kind) {
    struct pollfd waits = {.events = POLLIN};
    IS(consort_fd(client, &waits.fd), CONSORT_OK);
    for (int tries = 0; tries < LONG / 100; tries++) {
        consort_event *event;
        consort_code code = consort_try_receive(client, &event);
        if (code == CONSORT_NOTHING) {
            poll(&waits, 1, 100);
            continue;
        }
        IS(code, CONSORT_OK);
        if (consort_event_get_kind(event) == kind) return event;
        consort_event_free(event);
    }
    fail("nothing came");
    return NULL;
}

static void certificates_say_who_clients_are(const char *daemon) {
    consort_client *sender, *auditor;
    consort_options *options = tls("daemons.pem", "own.pem", "own.key");
    IS(consort_connect(daemon, options, &sender), CONSORT_OK);
    IS(set_tls(options, "daemons.pem", "audit.pem", "audit.key"), CONSORT_OK);
    IS(consort_connect(daemon, options, &auditor), CONSORT_OK);
    consort_options_free(options);
    IS(consort_join(auditor, orders, NULL), CONSORT_OK);
    consort_event_free(next(auditor, CONSORT_EVENT_GROUP_VIEW));
    char *large = malloc(LARGE);
    memset(large, 7, LARGE);
    IS(consort_multicast(sender, CONSORT_AGREED, &orders, 1, large, LARGE, NULL), CONSORT_OK);
    IS(consort_wait_ordered(sender, LONG), CONSORT_OK);
    consort_event *event = next(auditor, CONSORT_EVENT_MESSAGE);
    size_t len;
    HOLDS(memcmp(consort_event_payload(event, &len), large, LARGE) == 0 && len == LARGE);
    consort_event_free(event);
    free(large);
    IS(consort_multicast(auditor, CONSORT_AGREED, &orders, 1, "no", 2, NULL), CONSORT_OK);
    IS(consort_flush(auditor), CONSORT_OK);
    event = next(auditor, CONSORT_EVENT_REFUSED);
    HOLDS(strcmp(consort_event_text(event), "certificate:audit may not send to orders: no rule allows it") == 0);
    consort_event_free(event);
    consort_free(sender);
    consort_free(auditor);
}

/* A Unix socket has no TLS, which is no reason to refuse it; a wrong token is one, over TLS. */
static void addresses_of_both_kinds_and_tokens(const char *unix_socket, const char *daemon) {
    consort_client *client;
    consort_options *options = tls("daemons.pem", "own.pem", "own.key");
    IS(consort_connect(unix_socket, options, &client), CONSORT_OK);
    consort_free(client);
    IS(consort_options_set_token(options, "s1.ann.00"), CONSORT_OK);
    SAYS(consort_connect(daemon, options, &client), CONSORT_NOT_WELCOME, "token");
    HOLDS(consort_last_reason() == CONSORT_REASON_TOKEN_MALFORMED);
    IS(consort_options_set_token(options, getenv("TOKEN")), CONSORT_OK);
    IS(consort_connect(daemon, options, &client), CONSORT_OK);
    consort_free(client);
    consort_options_free(options);
}

static void sends_a_dozen(consort_session *session) {
    for (int n = 0; n < 12; n++) {
        uint64_t send;
        consort_event *event;
        IS(consort_session_send(session, CONSORT_AGREED, &orders, 1, "x", 1, &send), CONSORT_OK);
        IS(consort_session_outcome(session, send, LONG, &event), CONSORT_OK);
        HOLDS(consort_event_fate(event) == CONSORT_FATE_ORDERED);
        consort_event_free(event);
    }
}

static void a_session_goes_on_at_the_next_daemon(const char *const *daemons) {
    consort_session *session;
    consort_event *event;
    consort_options *options = tls("daemons.pem", "own.pem", "own.key");
    IS(consort_session_connect(daemons, 3, options, &session), CONSORT_OK);
    consort_options_free(options);
    sends_a_dozen(session);
    puts("kill A");
    fflush(stdout);
    char answer[8];
    HOLDS(fgets(answer, sizeof answer, stdin) != NULL);
    sends_a_dozen(session);
    const char *where[2];
    for (int connected = 0; connected < 2;) {
        IS(consort_session_receive(session, LONG, &event), CONSORT_OK);
        if (consort_event_get_kind(event) == CONSORT_EVENT_CONNECTED) {
            const char *told = consort_event_text(event);
            where[connected] = NULL;
            for (int n = 0; n < 3; n++) {
                if (strstr(told, daemons[n])) where[connected] = daemons[n];
            }
            connected++;
        }
        consort_event_free(event);
    }
    HOLDS(where[0] == daemons[0] && where[1] != NULL && where[1] != daemons[0]);
    IS(consort_session_close(session, LONG), CONSORT_OK);
    consort_session_free(session);
}

/* Clients that are freed leave no thread. */
static void no_thread_is_left(void) {
    int threads = 0;
    for (int tries = 0; tries < LONG / 10; tries++) {
        DIR *tasks = opendir("/proc/self/task");
        HOLDS(tasks != NULL);
        threads = 0;
        for (struct dirent *task; (task = readdir(tasks)) != NULL;) threads += task->d_name[0] != '.';
        closedir(tasks);
        if (threads == 1) return;
        poll(NULL, 0, 10);
    }
    fprintf(stderr, "%d threads\n", threads);
    fail("a thread is left");
}

int main(int argc, char **argv) {
    if (argc != 6) return 2;
    folder = argv[1];
    files_of_no_use_are_named_with_line_and_remedy();
    failed_handshakes_say_why(argv[3]);
    certificates_say_who_clients_are(argv[3]);
    addresses_of_both_kinds_and_tokens(argv[2], argv[3]);
    a_session_goes_on_at_the_next_daemon((const char *const *)argv + 3);
    no_thread_is_left();
    puts("sealed");
    return 0;
}

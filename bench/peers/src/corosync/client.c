/*
 * A client of Corosync: a member of a closed process group that sends, receives, or does both. It is compiled when it is
 * wanted, because libcpg is a library for C.
 *
 *     client INDEX SENDERS RECEIVERS GROUP SIZE max|even|poisson RATE CUT
 *
 * Only members may send, and every member is given everything. So the client with this INDEX sends if there are more
 * SENDERS than that, and judges what it is given if there are more RECEIVERS: as many processes as that takes, each with
 * one thread that is given messages and one that sends.
 */
#define _GNU_SOURCE
#include "measure.h"
#include <corosync/cpg.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

/* So long is waited before a message that was not taken is offered again, and until that is given up. */
static const uint64_t PAUSE = 100000, PATIENCE = 60000000000;
/* So often is a daemon asked that does not serve clients yet. */
static const uint64_t KNOCK = 50000000;
/* Below this wait one looks at the clock instead of sleeping. */
static const uint64_t NAP = 10000;
/* How often progress is told. */
static const uint64_t TELL = 100000000;

static struct {
    int index, senders, receivers, cut;
    struct cpg_name group;
    size_t size;
    enum pace pace;
    double rate;
} job;

/* What was the standard output. libcpg prints there on its own, for debugging, when it sends large messages. */
static FILE *reports;
static cpg_handle_t handle;
static size_t members;
static struct seen seen;
static uint64_t told;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int own_end_came;

static int sends(void)
{
    return job.index < job.senders;
}

static int receives(void)
{
    return job.index < job.receivers;
}

static void say(const char *form, ...)
{
    va_list all;
    va_start(all, form);
    flockfile(reports);
    vfprintf(reports, form, all);
    putc('\n', reports);
    fflush(reports);
    funlockfile(reports);
    va_end(all);
}

static void fail(const char *what, cs_error_t error)
{
    say("{\"Failed\":\"the client of Corosync with index %d: %s (%s)\"}", job.index, what, cs_strerror(error));
    exit(1);
}

static void expect(const char *what, cs_error_t error)
{
    if (error != CS_OK)
        fail(what, error);
}

static void sleep_ns(uint64_t ns)
{
    struct timespec span = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000) };
    nanosleep(&span, NULL);
}

static void sleep_until(uint64_t at)
{
    for (uint64_t now = now_ns(); now < at; now = now_ns())
        if (at - now >= NAP)
            sleep_ns(at - now - NAP / 2);
}

/* ---- what comes ---- */

static void on_change(cpg_handle_t from, const struct cpg_name *group, const struct cpg_address *now, size_t count,
                      const struct cpg_address *left, size_t left_count, const struct cpg_address *joined, size_t joined_count)
{
    (void)from, (void)group, (void)now, (void)left, (void)left_count, (void)joined, (void)joined_count;
    members = count;
}

static void on_own_end(void)
{
    pthread_mutex_lock(&lock);
    own_end_came = 1;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

static void judge(struct stamp stamp, uint64_t now, size_t len)
{
    int before = is_complete(&seen);
    take_message(&seen, stamp, now, len);
    if (!before && is_complete(&seen)) {
        flockfile(reports);
        tell_received(&seen, reports);
        funlockfile(reports);
    } else if (now >= told + TELL) {
        told = now;
        say("{\"Progress\":%" PRIu64 "}", seen.messages);
    }
}

static void on_message(cpg_handle_t from, const struct cpg_name *group, uint32_t node, uint32_t pid, void *message, size_t len)
{
    (void)from, (void)group, (void)node, (void)pid;
    struct stamp stamp;
    if (!read_stamp(&stamp, message, len))
        fail("a message came that no sender of this measurement sent", CS_ERR_INVALID_PARAM);
    if (receives())
        judge(stamp, now_ns(), len);
    if (stamp.kind == END && stamp.sender == job.index)
        on_own_end();
}

static void *receive(void *unused)
{
    /* Returns only if something is wrong. */
    fail("cpg_dispatch", cpg_dispatch(handle, CS_DISPATCH_BLOCKING));
    return unused;
}

static void enter(void)
{
    cpg_callbacks_t calls = { .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_change };
    cs_error_t error = cpg_initialize(&handle, &calls);
    for (uint64_t from = now_ns(); error != CS_OK && now_ns() < from + PATIENCE / 4; error = cpg_initialize(&handle, &calls))
        sleep_ns(KNOCK);
    expect("cpg_initialize", error);
    while ((error = cpg_join(handle, &job.group)) == CS_ERR_TRY_AGAIN)
        sleep_ns(KNOCK);
    expect("cpg_join", error);
    size_t all = (size_t)(job.senders > job.receivers ? job.senders : job.receivers);
    while (members != all)
        expect("cpg_dispatch", cpg_dispatch(handle, CS_DISPATCH_ONE));
}

/* ---- what goes ---- */

/* Sends one message. While the daemon has no room for it, or forms a view, it is offered again. */
static void multicast(uint8_t *message, size_t len)
{
    struct iovec part = { .iov_base = message, .iov_len = len };
    cs_error_t error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
    for (uint64_t from = now_ns(); error == CS_ERR_TRY_AGAIN && now_ns() < from + PATIENCE;) {
        sleep_ns(PAUSE);
        error = cpg_mcast_joined(handle, CPG_TYPE_AGREED, &part, 1);
    }
    expect("cpg_mcast_joined", error);
}

static void send_all(struct go go)
{
    struct schedule schedule = new_schedule(job.pace, job.rate, job.cut, job.index, job.senders, go);
    struct stamp stamp = { .sender = (uint16_t)job.index };
    uint8_t *message = malloc(job.size);
    if (message == NULL)
        fail("no memory for a message", CS_ERR_NO_MEMORY);
    memset(message, '.', job.size);
    while ((stamp.at = next_due(&schedule, now_ns())) != 0) {
        sleep_until(stamp.at);
        stamp.kind = kind_at(go, stamp.at);
        write_stamp(stamp, message);
        multicast(message, job.size);
        stamp.number++;
    }
    uint64_t messages = stamp.number;
    stamp.at = now_ns();
    stamp.kind = END;
    write_stamp(stamp, message);
    multicast(message, HEADER);
    pthread_mutex_lock(&lock);
    while (!own_end_came)
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    say("{\"Sent\":{\"messages\":%" PRIu64 ",\"unsent\":%" PRIu64 "}}", messages, unsent(schedule));
}

/* ---- the whole ---- */

/* Ends this process when its input ends: whoever started it is through, or gone. */
static void *end_with_stdin(void *unused)
{
    while (getchar() != EOF)
        ;
    _exit(0);
    return unused;
}

static void start(void *(*what)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, what, NULL) != 0)
        fail("no thread can be started", CS_ERR_NO_RESOURCES);
}

static int keep_reports(void)
{
    int kept = dup(STDOUT_FILENO);
    reports = kept < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? NULL : fdopen(kept, "w");
    return reports != NULL;
}

static int read_job(char **words)
{
    job.index = atoi(words[0]);
    job.senders = atoi(words[1]);
    job.receivers = atoi(words[2]);
    job.group.length = (uint32_t)strlen(words[3]);
    job.size = strtoull(words[4], NULL, 10);
    job.pace = strcmp(words[5], "max") == 0 ? MAX : strcmp(words[5], "even") == 0 ? EVEN : POISSON;
    job.rate = atof(words[6]);
    job.cut = atoi(words[7]);
    if (job.senders > SENDERS_MAX || job.size < HEADER || job.group.length > CPG_MAX_NAME_LENGTH)
        return 0;
    memcpy(job.group.value, words[3], job.group.length);
    return 1;
}

int main(int count, char **words)
{
    struct go go;
    if (count != 9 || !read_job(words + 1)) {
        fprintf(stderr, "usage: client INDEX SENDERS RECEIVERS GROUP SIZE max|even|poisson RATE CUT\n");
        return 2;
    }
    if (!keep_reports()) {
        perror("the standard output");
        return 1;
    }
    /* Else a sleep takes up to 50 us longer than it should. */
    prctl(PR_SET_TIMERSLACK, 1);
    enter();
    say("\"Ready\"");
    if (!read_go(&go, stdin)) {
        say("{\"Failed\":\"no signal to go came\"}");
        return 1;
    }
    seen.go = go;
    seen.senders = job.senders;
    told = now_ns();
    start(end_with_stdin);
    start(receive);
    if (sends())
        send_all(go);
    /* It stays, so that what it cost can still be read, until its input ends. */
    for (;;)
        pause();
}

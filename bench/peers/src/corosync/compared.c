/* The C side of the comparison that measure.h speaks of: the same questions as the test asks the Rust side. */
#include "measure.h"

static const struct go GO = { .start = 1000, .from = 200000000, .until = 900000000 };

/* PACE RATE CUT INDEX SENDERS: when messages are due, asked ever later, and then how many were left. */
static int tell_schedule(char **words)
{
    enum pace pace = strcmp(words[0], "max") == 0 ? MAX : strcmp(words[0], "even") == 0 ? EVEN : POISSON;
    struct schedule schedule = new_schedule(pace, atof(words[1]), atoi(words[2]), atoi(words[3]), atoi(words[4]), GO);
    for (uint64_t step = 0; step <= 100; step++)
        printf("%" PRIu64 "\n", next_due(&schedule, step * 9000000));
    printf("%" PRIu64 "\n", unsent(schedule));
    return 0;
}

/* Reads messages, each behind the time at which it came and its length, and tells what they come to. */
static int judge(int senders)
{
    static struct seen seen;
    static uint8_t front[12], message[4096];
    seen.go = GO;
    seen.senders = senders;
    while (fread(front, sizeof front, 1, stdin) == 1) {
        size_t len = take_number(front + 8, 4);
        struct stamp stamp;
        if (len > sizeof message || fread(message, 1, len, stdin) != len || !read_stamp(&stamp, message, len))
            return 1;
        uint8_t again[HEADER];
        write_stamp(stamp, again);
        if (memcmp(again, message, HEADER) != 0)
            return 1;
        take_message(&seen, stamp, take_number(front, 8), len);
    }
    tell_received(&seen, stdout);
    return 0;
}

int main(int count, char **words)
{
    (void)now_ns, (void)kind_at, (void)read_go;
    if (count == 7 && strcmp(words[1], "schedule") == 0)
        return tell_schedule(words + 2);
    return count == 3 && strcmp(words[1], "judge") == 0 ? judge(atoi(words[2])) : 2;
}

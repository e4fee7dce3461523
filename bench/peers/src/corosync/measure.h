/*
 * What a client written in C needs to be measured as the clients written in Rust are: messages, due times, the judgement
 * of the order, and reports. It says the same as message.rs, schedule.rs, sequence.rs, receiver.rs and job.rs beside
 * this directory; a test compares the two, number by number.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The bytes before what is carried, and the most clients that send. */
enum { HEADER = 24, SENDERS_MAX = 256 };

/* What a message is for. */
enum kind { UNMEASURED, MEASURED, END };

struct stamp {
    uint64_t at, number;
    uint16_t sender;
    uint8_t kind;
};

/* When to start, and which span is measured. */
struct go {
    uint64_t start, from, until;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void put_number(uint8_t *at, uint64_t number, int len)
{
    while (len-- > 0) {
        at[len] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t take_number(const uint8_t *at, int len)
{
    uint64_t sum = 0;
    for (int i = 0; i < len; i++)
        sum = sum << 8 | at[i];
    return sum;
}

/* Writes a stamp over the first bytes of a message. */
static void write_stamp(struct stamp stamp, uint8_t *message)
{
    memset(message, 0, HEADER);
    put_number(message, stamp.at, 8);
    put_number(message + 8, stamp.number, 8);
    put_number(message + 16, stamp.sender, 2);
    message[18] = stamp.kind;
}

/* Reads it back; 0 for a message that is not of a measurement. */
static int read_stamp(struct stamp *stamp, const uint8_t *message, size_t len)
{
    if (len < HEADER || message[18] > END)
        return 0;
    stamp->at = take_number(message, 8);
    stamp->number = take_number(message + 8, 8);
    stamp->sender = (uint16_t)take_number(message + 16, 2);
    stamp->kind = message[18];
    return 1;
}

static uint8_t kind_at(struct go go, uint64_t at)
{
    return at >= go.from && at < go.until ? MEASURED : UNMEASURED;
}

/* ---- when messages are due ---- */

enum pace { MAX, EVEN, POISSON };

struct schedule {
    enum pace pace;
    /* The time between two messages, in nanoseconds. */
    double gap;
    struct go go;
    int cut;
    uint64_t chance;
    double next;
};

static double unit(uint64_t *chance)
{
    uint64_t z = *chance += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / (double)(UINT64_C(1) << 53);
}

static double gap(struct schedule *schedule)
{
    switch (schedule->pace) {
    case EVEN:
        return schedule->gap;
    case POISSON:
        return -schedule->gap * log(1.0 - unit(&schedule->chance));
    default:
        return 0;
    }
}

/* Of the sender with this index. `rate` is its own, in messages a second. */
static struct schedule new_schedule(enum pace pace, double rate, int cut, int index, int senders, struct go go)
{
    struct schedule schedule = { .pace = pace, .gap = 1e9 / rate, .go = go, .cut = cut, .chance = (uint64_t)index + 1 };
    if (pace == EVEN)
        schedule.next = (double)index / (double)senders * 1e9 / rate;
    if (pace == POISSON)
        schedule.next = gap(&schedule);
    return schedule;
}

static uint64_t due(const struct schedule *schedule)
{
    return schedule->go.start + (uint64_t)schedule->next;
}

/* When the next message is due; 0 once there is none any more. */
static uint64_t next_due(struct schedule *schedule, uint64_t now)
{
    const struct go *go = &schedule->go;
    uint64_t at = schedule->pace != MAX ? due(schedule) : now > go->start ? now : go->start;
    if (at >= go->until || (schedule->cut && now >= go->until))
        return 0;
    schedule->next += gap(schedule);
    return at;
}

/* How many were due in time but were not asked for, because time was up. */
static uint64_t unsent(struct schedule schedule)
{
    uint64_t count = 0;
    for (; schedule.pace != MAX && schedule.cut && due(&schedule) < schedule.go.until; count++)
        schedule.next += gap(&schedule);
    return count;
}

/* ---- what a receiver saw ---- */

/* Times are told apart to 11 bits, which is finer than the three digits that are told in the end. */
enum { FINE = 11, SLOTS = (64 - FINE + 1) << FINE };

struct seen {
    struct go go;
    int senders, ended;
    uint64_t next[SENDERS_MAX];
    uint64_t order, wrong, messages, in_span, bytes_in_span, first, last;
    uint32_t times[SLOTS];
};

static int slot_of(uint64_t ns)
{
    int above = ns >> FINE == 0 ? 0 : 64 - FINE - __builtin_clzll(ns);
    return above == 0 ? (int)ns : (above << FINE) + (int)((ns >> (above - 1) & ~(UINT64_C(1) << FINE)));
}

/* The least time that falls into a slot. */
static uint64_t time_of(int slot)
{
    int above = slot >> FINE;
    uint64_t low = (uint64_t)slot & ((UINT64_C(1) << FINE) - 1);
    return above == 0 ? low : (low | UINT64_C(1) << FINE) << (above - 1);
}

static void judge_order(struct seen *seen, struct stamp stamp)
{
    uint64_t order = seen->order << 5 | seen->order >> 59;
    seen->order = (order ^ stamp.number ^ (uint64_t)stamp.sender << 48) * 0x9e3779b97f4a7c15;
    if (stamp.sender >= seen->senders) {
        seen->wrong++;
    } else {
        seen->wrong += seen->next[stamp.sender] != stamp.number;
        seen->next[stamp.sender] = stamp.number + 1;
    }
    seen->ended += stamp.kind == END;
}

/* The next message, which came at this time. */
static void take_message(struct seen *seen, struct stamp stamp, uint64_t now, size_t len)
{
    judge_order(seen, stamp);
    if (stamp.kind == END)
        return;
    if (stamp.kind == MEASURED)
        seen->times[slot_of(now > stamp.at ? now - stamp.at : 0)]++;
    seen->messages++;
    if (now >= seen->go.from && now < seen->go.until) {
        seen->in_span++;
        seen->bytes_in_span += len;
    }
    if (seen->first == 0)
        seen->first = now;
    seen->last = now;
}

static int is_complete(const struct seen *seen)
{
    return seen->ended == seen->senders;
}

/* ---- what is told: one line of JSON each, as job.rs reads it ---- */

static void tell_received(const struct seen *seen, FILE *out)
{
    fprintf(out, "{\"Received\":{\"messages\":%" PRIu64 ",\"in_span\":%" PRIu64 ",\"bytes_in_span\":%" PRIu64, seen->messages,
            seen->in_span, seen->bytes_in_span);
    fprintf(out, ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 ",\"wrong\":%" PRIu64, seen->first, seen->last, seen->wrong);
    fprintf(out, ",\"complete\":%s,\"digest\":\"%016" PRIx64 "\",\"times\":[", is_complete(seen) ? "true" : "false", seen->order);
    const char *between = "";
    for (int slot = 0; slot < SLOTS; slot++) {
        if (seen->times[slot] != 0) {
            fprintf(out, "%s[%" PRIu64 ",%" PRIu32 "]", between, time_of(slot), seen->times[slot]);
            between = ",";
        }
    }
    fprintf(out, "]}}\n");
    fflush(out);
}

/* Reads the signal to go; 0 if it is none. */
static int read_go(struct go *go, FILE *in)
{
    char line[256];
    const char *form = "{\"start\":%" SCNu64 ",\"from\":%" SCNu64 ",\"until\":%" SCNu64 "}";
    return fgets(line, sizeof line, in) != NULL && sscanf(line, form, &go->start, &go->from, &go->until) == 3;
}

#endif

/* How the programs in this folder check: what fails is printed with its line, and ends the process. */
#ifndef CHECK_H
#define CHECK_H
#include <consort.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int line;

static void fail(const char *what) {
    fprintf(stderr, "process %d, line %d: %s; the last error was: %s\n", (int)getpid(), line, what, consort_last_error());
    fflush(stdout);
    _exit(1);
}

static void check(consort_code is, consort_code expected, const char *text) {
    if (is != expected) {
        fprintf(stderr, "code %d instead of %d\n", is, expected);
        fail("a wrong code");
    }
    if (text && !strstr(consort_last_error(), text)) {
        fprintf(stderr, "not said: %s\n", text);
        fail("a wrong text");
    }
}

#define IS(call, code) (line = __LINE__, check(call, code, NULL))
#define SAYS(call, code, text) (line = __LINE__, check(call, code, text))
#define HOLDS(what) (line = __LINE__, (what) ? (void)0 : fail(#what))
#endif

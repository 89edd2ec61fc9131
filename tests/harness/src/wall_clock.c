/* Preloaded into a redis-server: its wall clock goes by a number of microseconds that a test writes into a file, which is
   mapped here. It is added to the system's time, or stands in its place, where the clock is to stand still. The monotonic
   clock stays as it is, as when somebody sets the time. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *us;
static int stands;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("QUORLOCK_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) abort();
    us = mmap(NULL, sizeof *us, PROT_READ, MAP_SHARED, file, 0);
    if (us == MAP_FAILED) abort();
    stands = getenv("QUORLOCK_CLOCK_STANDS") != NULL;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t at = *us;
        if (!stands) at += now->tv_sec * INT64_C(1000000) + now->tv_nsec / 1000;
        now->tv_sec = at / 1000000;
        now->tv_nsec = at % 1000000 * 1000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact)) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

/* Valkey 9.1 reads the wall clock once in a millisecond, and goes on from there by the processor's counter. It does so only
   if it finds that counter's rate in this file. */
static FILE *open_but_cpuinfo(const char *name, const char *path, const char *mode) {
    FILE *(*next)(const char *, const char *);
    if (!strcmp(path, "/proc/cpuinfo")) return NULL;
    *(void **)&next = dlsym(RTLD_NEXT, name);
    return next(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) { return open_but_cpuinfo("fopen", path, mode); }
FILE *fopen64(const char *restrict path, const char *restrict mode) { return open_but_cpuinfo("fopen64", path, mode); }

/* Preloaded into a redis-server: its wall clock is the system's plus an offset in microseconds, which the test
   writes into a file that is mapped here. The monotonic clock stays as it is, as when somebody sets the time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("QUORLOCK_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) abort();
    offset = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (offset == MAP_FAILED) abort();
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t us = now->tv_sec * INT64_C(1000000) + now->tv_nsec / 1000 + *offset;
        now->tv_sec = us / 1000000;
        now->tv_nsec = us % 1000000 * 1000;
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

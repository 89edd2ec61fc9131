/* Preloaded into a redis-server: its wall clock stands at what the test has written into a file that is mapped here, in
   microseconds since 1970. The monotonic clock goes on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *us;

__attribute__((constructor)) static void open_clock(void) {
    const char *path = getenv("QUORLOCK_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) abort();
    us = mmap(NULL, sizeof *us, PROT_READ, MAP_SHARED, file, 0);
    if (us == MAP_FAILED) abort();
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (us && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t at = *us;
        now->tv_sec = at / 1000000;
        now->tv_nsec = at % 1000000 * 1000;
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, now);
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

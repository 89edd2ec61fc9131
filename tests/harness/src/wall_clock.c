/* Preloaded into a redis-server: its wall clock goes by a number of microseconds that a test writes into a file, which is
   mapped here. It is added to the system's time, or stands in its place, where the clock is to stand still. The monotonic
   clock stays as it is, as when somebody sets the time. */
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

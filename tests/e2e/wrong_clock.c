// Preloaded, it makes the time of day of a process wrong by CLOCK_OFF_BY_S seconds, as on a machine
// with a wrong clock: monotonic clocks go right, and every wait takes as long as it should.
//
// Not libfaketime: under it, Object.wait() of a JVM returned at once, and a look at the clock took
// 6 us instead of 0.05; all of Spark's threads span, and it did not get going in two minutes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

typedef struct timespec when;

static time_t off_by(void) {
    static time_t seconds;
    static int known;
    if (!known) {
        const char *said = getenv("CLOCK_OFF_BY_S");
        seconds = said ? atol(said) : 0;
        known = 1;
    }
    return seconds;
}

static when truly(const when *wrong) {
    when right = *wrong;
    right.tv_sec = right.tv_sec > off_by() ? right.tv_sec - off_by() : 0;
    return right;
}

// What time it is.

int clock_gettime(clockid_t clock, when *now) {
    static int (*real)(clockid_t, when *);
    if (!real) real = (int (*)(clockid_t, when *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += off_by();
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    when wrong;
    clock_gettime(CLOCK_REALTIME, &wrong);
    now->tv_sec = wrong.tv_sec;
    now->tv_usec = wrong.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    when wrong;
    clock_gettime(CLOCK_REALTIME, &wrong);
    if (now) *now = wrong.tv_sec;
    return wrong.tv_sec;
}

// Waits until a time of day.

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const when *restrict until) {
    if (cond->__data.__wrefs & 2)  // glibc: it was made for the monotonic clock
        return pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, until);
    when right = truly(until);
    return pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, &right);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const when *restrict until) {
    int error = pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, until);
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int sem_timedwait(sem_t *restrict semaphore, const when *restrict until) {
    when right = truly(until);
    return sem_clockwait(semaphore, CLOCK_REALTIME, &right);
}

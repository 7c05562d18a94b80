/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/point.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Of the process, since calls of the system have no object that they belong to. Sequentially consistent, all of them: only counts. */
static atomic_bool point_armed;
static atomic_ullong point_count;
static uint64_t point_number; /* written while nothing is armed, as are the next two */
static unsigned point_kinds;
static const char *point_call;
static struct point point_one;
static atomic_bool point_fired;

/* point_arm -- see point.h. */
void point_arm(uint64_t number, unsigned kinds, const char *call)
{
    point_number = number;
    point_kinds = kinds;
    point_call = call;
    atomic_store(&point_count, 0);
    atomic_store(&point_fired, false);
    atomic_store(&point_armed, true);
}

/* point_disarm -- see point.h. */
uint64_t point_disarm(void)
{
    atomic_store(&point_armed, false);
    return atomic_load(&point_count);
}

/* point_failed -- see point.h. */
struct point point_failed(void)
{
    return atomic_load(&point_fired) ? point_one : (struct point){.number = 0};
}

/* point_count_in -- true: it is the one that fails. */
static bool point_count_in(enum point_kind kind, const char *call, int os_errno, const char *words,
                           const void *place)
{
    if (!atomic_load(&point_armed) || (point_kinds & kind) == 0 ||
        (point_call != NULL && strcmp(point_call, call) != 0) ||
        atomic_fetch_add(&point_count, 1) + 1 != point_number)
        return false;
    point_one = (struct point){.number = point_number, .os_errno = os_errno, .words = words, .place = place};
    snprintf(point_one.call, sizeof(point_one.call), "%s", call);
    atomic_store(&point_fired, true);
    return true;
}

/* point_reached -- see point.h. */
bool point_reached(enum point_kind kind, const char *call, int os_errno, const void *place)
{
    if (!point_count_in(kind, call, os_errno, NULL, place))
        return false;
    errno = os_errno;
    return true;
}

/* point_told -- see point.h. */
bool point_told(const char *what, const char *words, const void *place)
{
    if (!point_count_in(POINT_VERBS, what, 0, words, place))
        return false;
    point_one.harmless = words == NULL;
    return true;
}

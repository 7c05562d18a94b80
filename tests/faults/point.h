/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * point -- a call of the system, or of another library, that the project's code makes and that can fail. Points are counted in the order in which the threads of a
 * process come to them, and one of them fails.
 */
#ifndef TESTS_FAULTS_POINT_H
#define TESTS_FAULTS_POINT_H

#include <stdbool.h>
#include <stdint.h>

/* The one that failed; and what there is of things that must be given back. */
struct point {
    uint64_t number; /* from 1; 0: none has failed */
    int os_errno;
    const void *place; /* where it was called from */
    char call[32];
};

/* point_arm -- from now on calls count; the one of that number fails (0: none). */
void point_arm(uint64_t number);
/* point_disarm -- no more; returns how many there were. */
uint64_t point_disarm(void);
/* point_failed -- the one that failed since point_arm. */
struct point point_failed(void);
/* point_reached -- counts a call; true: it is to fail, with that errno. */
bool point_reached(const char *call, int os_errno, const void *place);

/* point_kept -- threads and mappings that the project's code has made and not given back. */
void point_kept(long *threads, long *mappings);

#endif

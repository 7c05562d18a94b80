/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * point -- a call of the system, or of another library, that the project's code makes and that can fail. Points are counted in the order in which the threads of a
 * process come to them, and one of them fails.
 */
#ifndef TESTS_FAULTS_POINT_H
#define TESTS_FAULTS_POINT_H

#include <stdbool.h>
#include <stdint.h>

/* Whose calls they are. */
enum point_kind { POINT_SYSTEM = 1, POINT_VERBS = 2 };

/* The one that failed. */
struct point {
    uint64_t number; /* from 1; 0: none has failed */
    int os_errno;
    const char *words; /* what whoever tells of it must say; NULL: the words of os_errno */
    bool harmless;
    const void *place; /* where it was called from */
    char call[32];
};

/* point_arm -- from now on calls of these kinds count, or those of one name alone (NULL: all); the one of that number fails (0: none). */
void point_arm(uint64_t number, unsigned kinds, const char *call);
/* point_disarm -- no more; returns how many there were. */
uint64_t point_disarm(void);
/* point_failed -- the one that failed since point_arm. */
struct point point_failed(void);
/* point_reached -- counts a call; true: it is to fail, with that errno. */
bool point_reached(enum point_kind kind, const char *call, int os_errno, const void *place);
/* point_told -- counts something that a call of verbs tells; true: it is to tell of a failure, of which an error says `words` (constant), or, where words is NULL, of something that does no harm. */
bool point_told(const char *what, const char *words, const void *place);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* A file that appears whole or not at all: written beside its place, then moved there. A symbolic
 * link is followed; what is no regular file (a device, a FIFO) stays, and is written to. Each
 * function returns 0 or the errno. */
#ifndef FASHION_OUTPUT_H
#define FASHION_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *file;
    bool moved;            /* to its place when it is whole */
    char target[PATH_MAX]; /* behind all links */
    char draft[PATH_MAX];
};

/* output_try -- whether a file can be written, without touching it */
int output_try(const char *path);

/* output_open -- begin; write to output->file, then close */
int output_open(struct output *output, const char *path);

/* output_close -- end: every byte is in its place, or, after an error or with whole = false, what
 * was there is as before */
int output_close(struct output *output, bool whole);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/program.h"

/* The program itself, which has a main of its own. */
#define main program_ps
#include "ps/program/stepgate-ps.c"

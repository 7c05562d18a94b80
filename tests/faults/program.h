/* SPDX-License-Identifier: BSD-3-Clause */
/* program -- stepgate-ps, as a function. */
#ifndef TESTS_FAULTS_PROGRAM_H
#define TESTS_FAULTS_PROGRAM_H

/* program_ps -- its main; it is stopped as the program is, by SIGTERM to the thread that runs it. */
int program_ps(int argc, char **argv);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* transfer -- what moves bytes over the wire of a trial, for every test that measures it. */
#ifndef PERF_TEST_TRANSFER_H
#define PERF_TEST_TRANSFER_H

#include "perf/trial.h"

/* transfer_bw_defaults -- large messages. */
void transfer_bw_defaults(struct settings *settings);
/* transfer_ping -- one write each way, round trips. transfer_write_flow, transfer_read_flow -- many under way, a rate. Each is a trial_loop. */
int transfer_ping(struct trial *trial, const struct stint *stint, bool measured);
int transfer_write_flow(struct trial *trial, const struct stint *stint, bool measured);
int transfer_read_flow(struct trial *trial, const struct stint *stint, bool measured);
/* transfer_verify -- one message more over every connection, whole: 0; 1: its bytes are wrong; -1: the wire failed. */
int transfer_verify(struct trial *trial, bool read);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* promise -- the promises of the contract; the table is in promise.c, in the order in which they are tested. */
#ifndef TESTS_CONFORMANCE_PROMISE_H
#define TESTS_CONFORMANCE_PROMISE_H

#include "tests/conformance/suite.h"

/* connect.c */
int promise_hello(struct suite *suite);
int promise_port_in_use(struct suite *suite);
int promise_connect_to_nobody(struct suite *suite);
int promise_refuse(struct suite *suite);
int promise_wrong_job(struct suite *suite);
int promise_accept_elsewhere(struct suite *suite);
int promise_listener_delete(struct suite *suite);
/* order.c */
int promise_notify_after_write(struct suite *suite);
int promise_message_order(struct suite *suite);
int promise_visibility(struct suite *suite);
/* transfer.c */
int promise_zero_length(struct suite *suite);
int promise_inline(struct suite *suite);
int promise_read(struct suite *suite);
int promise_large(struct suite *suite);
int promise_beyond_4_gib(struct suite *suite);
int promise_callers_memory(struct suite *suite);
/* device.c */
int promise_device_memory(struct suite *suite);
/* flow.c */
int promise_many_endpoints(struct suite *suite);
int promise_back_pressure(struct suite *suite);
int promise_held_back(struct suite *suite);
int promise_selective_completion(struct suite *suite);
int promise_wake_up(struct suite *suite);
/* access.c */
int promise_access(struct suite *suite);
int promise_tampered_descriptor(struct suite *suite);
int promise_mapping_survives(struct suite *suite);
/* loss.c */
int promise_peer_gone(struct suite *suite);
int promise_peer_killed(struct suite *suite);
int promise_delete_in_flight(struct suite *suite);
int promise_delete_with_frozen_peer(struct suite *suite);

#endif

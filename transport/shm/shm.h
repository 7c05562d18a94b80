/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm -- the transport between processes of one host and one user: regions are sealed memfds that the peer maps, notifies and messages
 * go through rings in shared memory, and an AF_UNIX socket makes the connection, carries descriptors and tells when the peer dies.
 *
 * Addresses are "host:port"; the host is not looked at. A listener is an abstract socket named from user and port, so that nothing stays
 * behind after kill -9; it is seen in its network namespace only, and only processes of the same user, or root, are let in.
 *
 * `operations` of the capabilities is the number of flagged writes and reads, and of notifies and messages of up to 500 bytes, that an
 * endpoint takes before -STEPGATE_EAGAIN; of longer messages fewer fit. A post that was answered so is worth repeating when queue_fd of
 * an armed queue turns readable, which happens as soon as the peer has made room.
 *
 * What the kernel enforces: a region that was made for reading alone can't be mapped writable by anybody after region_new, and no region
 * can be shrunk or grown. A region that may be written is granted for reading as a descriptor that is open for reading alone; a hostile
 * process of the same user can open it again.
 */
#ifndef TRANSPORT_SHM_SHM_H
#define TRANSPORT_SHM_SHM_H

#include <stdbool.h>

#include "stepgate/transport.h"

/* shm_transport -- the table of the shm transport; constant, never NULL. */
const struct stepgate_transport_v1 *shm_transport(void);

/*
 * shm_share_mappings -- for tests alone: from now on, whoever maps memory that this process has mapped already gets that same mapping,
 * so that ThreadSanitizer, which can't see that two addresses are one memory, sees the races between two ends in one process. Remotes
 * for reading are then writable. Process-wide; call it before anything is opened.
 */
void shm_share_mappings(bool share);

#endif

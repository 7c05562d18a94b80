/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell -- an eventfd by which others wake the queue that sleeps on it. The queue owns it; each peer holds a duplicate. */
#ifndef TRANSPORT_SHM_DOORBELL_H
#define TRANSPORT_SHM_DOORBELL_H

/* shm_doorbell_new -- a descriptor, or a negative code. Errors: ELIMIT, ESYSTEM. */
int shm_doorbell_new(void);
/* shm_doorbell_check -- a descriptor that a peer sent must be an eventfd that does not block: anything else could hold the ringer up. Errors: EPROTOCOL (it is not), ESYSTEM (it can't be seen). */
int shm_doorbell_check(int fd);
/* shm_doorbell_ring -- makes it readable. Keeps errno. */
void shm_doorbell_ring(int fd);
/* shm_doorbell_clear -- makes it quiet again. */
void shm_doorbell_clear(int fd);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* damage -- the error for a file that is not as it was written. */
#ifndef PS_CHECKPOINT_DAMAGE_H
#define PS_CHECKPOINT_DAMAGE_H

/* damage_error -- EPROTOCOL: what lies at path, and what is wrong with it. */
int damage_error(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

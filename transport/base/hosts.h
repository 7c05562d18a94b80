/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts -- addresses and lists of them: "host:port", "[v6]:port", separated by commas. An entry
 * "-:0" in a list stands for an address that is not known here.
 */
#ifndef TRANSPORT_BASE_HOSTS_H
#define TRANSPORT_BASE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOSTS_ADDRESS_BYTES 128 /* of an address in text, with the terminating zero */
#define HOSTS_MAX 4096          /* entries of a list */

struct hosts_entry {
    char address[HOSTS_ADDRESS_BYTES]; /* "host:port" or "[v6]:port"; "" if not known */
    char host[HOSTS_ADDRESS_BYTES];    /* without brackets; "" if not known */
    uint16_t port;                     /* 0: any free one */
    bool known;
};

struct hosts {
    size_t count;
    struct hosts_entry *entries;
};

/* hosts_parse_address -- one address. `what` names its origin in the text of an error. Errors:
 * EINVAL. */
int hosts_parse_address(const char *what, const char *text, struct hosts_entry *out);

/* hosts_parse_listen -- an address to listen on: as above, but the port may be missing, which is port 0. Errors: EINVAL. */
int hosts_parse_listen(const char *what, const char *text, struct hosts_entry *out);

/* hosts_parse -- a list; empty text gives an empty list. Errors: EINVAL (the text names the entry's
 * place), ENOMEM. */
int hosts_parse(const char *what, const char *text, struct hosts *out);

/* hosts_parse_names -- the same for hosts that nobody connects to: an entry without port has port 0. */
int hosts_parse_names(const char *what, const char *text, struct hosts *out);

/* hosts_is_loopback -- an address that means the host it is used on: 127.x.x.x, localhost, ::1. */
bool hosts_is_loopback(const char *address);

/* hosts_clear -- frees the entries. */
void hosts_clear(struct hosts *hosts);

#endif

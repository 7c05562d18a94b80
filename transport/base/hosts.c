/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/hosts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

enum { HOSTS_SHOWN = 80 }; /* characters of an entry, so that what is wrong with it stays in the message */

/* What is wrong with an address, in words; its remedy. */
struct hosts_fault {
    const char *wrong;
    const char *remedy;
};

static const char hosts_remedy[] = "give host:port or [v6]:port, several separated by commas";

/* hosts_port -- a port number of n digits; -1 if it is none. */
static int hosts_port(const char *text, size_t n)
{
    int port = 0;

    if (n == 0 || n > 5)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        port = port * 10 + (text[i] - '0');
    }
    return port <= UINT16_MAX ? port : -1;
}

/* hosts_host_is_plain -- only characters that names and numeric addresses have (with the zone of a
 * v6 address). */
static bool hosts_host_is_plain(const char *host, size_t n, bool v6)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)host[i];
        if (!isalnum(c) && c != '.' && c != '-' && c != '_' && !(v6 && (c == ':' || c == '%')))
            return false;
    }
    return true;
}

/* hosts_take_entry -- one entry of n characters, bare: without port; returns what is wrong with it, wrong NULL if nothing is. */
static struct hosts_fault hosts_take_entry(const char *text, size_t n, bool bare, struct hosts_entry *out)
{
    struct hosts_entry entry = {.known = true};
    const char *host = text;
    const char *end;
    bool v6 = n > 0 && text[0] == '[';

    if (n == 0)
        return (struct hosts_fault){"it is empty", "remove the comma too many, or name the host"};
    if ((n == 1 && text[0] == '-') || (n == 3 && memcmp(text, "-:0", 3) == 0)) {
        *out = (struct hosts_entry){.known = false};
        return (struct hosts_fault){NULL, NULL};
    }
    if (n >= HOSTS_ADDRESS_BYTES)
        return (struct hosts_fault){"it is too long", hosts_remedy};
    if (v6) {
        host = text + 1;
        end = memchr(text, ']', n);
        if (end == NULL)
            return (struct hosts_fault){"the closing ] is missing", hosts_remedy};
    } else {
        end = memchr(text, ':', n);
        if (end == NULL && !bare)
            return (struct hosts_fault){"the port is missing", hosts_remedy};
        if (end == NULL)
            end = text + n;
        else if (memchr(end + 1, ':', n - (size_t)(end + 1 - text)) != NULL)
            return (struct hosts_fault){"it has more than one colon",
                                        "put an IPv6 address in brackets: [v6]:port"};
    }
    size_t length = (size_t)(end - host);
    if (length == 0)
        return (struct hosts_fault){"the host is missing", hosts_remedy};
    if (!hosts_host_is_plain(host, length, v6))
        return (struct hosts_fault){"the host has a character that no host name has", hosts_remedy};
    const char *colon = v6 ? end + 1 : end;
    int port = 0;
    if (colon < text + n && *colon == ':')
        port = hosts_port(colon + 1, n - (size_t)(colon + 1 - text));
    else if (!bare || colon < text + n)
        return (struct hosts_fault){"the port is missing", hosts_remedy};
    if (port < 0)
        return (struct hosts_fault){"the port is not a number from 0 to 65535", hosts_remedy};
    entry.port = (uint16_t)port;
    memcpy(entry.address, text, n);
    memcpy(entry.host, host, length);
    *out = entry;
    return (struct hosts_fault){NULL, NULL};
}

/* hosts_parse_address -- one address. */
int hosts_parse_address(const char *what, const char *text, struct hosts_entry *out)
{
    struct hosts_entry entry;
    struct hosts_fault fault = hosts_take_entry(text, strlen(text), false, &entry);

    if (fault.wrong == NULL && !entry.known)
        fault = (struct hosts_fault){"it names no host", "give host:port or [v6]:port"};
    if (fault.wrong != NULL)
        return error_set(STEPGATE_EINVAL, 0, fault.remedy, "%s: '%.*s' is no address: %s", what, HOSTS_SHOWN,
                         text, fault.wrong);
    *out = entry;
    return 0;
}

/* hosts_parse_listen -- an address whose port may be missing. */
int hosts_parse_listen(const char *what, const char *text, struct hosts_entry *out)
{
    char with_port[HOSTS_ADDRESS_BYTES];
    size_t n = strlen(text);
    bool bare = n > 0 && (text[0] == '[' ? text[n - 1] == ']' : strchr(text, ':') == NULL);

    if (!bare || n + 3 > sizeof(with_port))
        return hosts_parse_address(what, text, out);
    snprintf(with_port, sizeof(with_port), "%s:0", text);
    return hosts_parse_address(what, with_port, out);
}

/* hosts_take_list -- entries between commas. */
static int hosts_take_list(const char *what, const char *text, bool bare, struct hosts *out)
{
    struct hosts hosts = {0};
    size_t entries = 1;

    if (text[0] == '\0') {
        *out = hosts;
        return 0;
    }
    for (const char *c = text; *c != '\0'; c++)
        entries += *c == ',';
    if (entries > HOSTS_MAX)
        return error_set(STEPGATE_EINVAL, 0, "name fewer hosts", "%s: %zu entries, at most %d are possible",
                         what, entries, HOSTS_MAX);
    hosts.entries = calloc(entries, sizeof(*hosts.entries));
    if (hosts.entries == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "%s: no memory for %zu entries", what, entries);
    for (const char *at = text;; at++) {
        size_t n = strcspn(at, ",");
        struct hosts_fault fault = hosts_take_entry(at, n, bare, &hosts.entries[hosts.count]);
        if (fault.wrong != NULL) {
            int code =
                error_set(STEPGATE_EINVAL, 0, fault.remedy, "%s: entry %zu (character %zu), '%.*s': %s", what,
                          hosts.count + 1, (size_t)(at - text) + 1, (int)(n < HOSTS_SHOWN ? n : HOSTS_SHOWN),
                          at, fault.wrong);
            free(hosts.entries);
            return code;
        }
        hosts.count++;
        at += n;
        if (*at == '\0')
            break;
    }
    *out = hosts;
    return 0;
}

/* hosts_parse -- a list. */
int hosts_parse(const char *what, const char *text, struct hosts *out)
{
    return hosts_take_list(what, text, false, out);
}

/* hosts_parse_names -- a list in which ports may be missing. */
int hosts_parse_names(const char *what, const char *text, struct hosts *out)
{
    return hosts_take_list(what, text, true, out);
}

/* hosts_is_loopback -- by its text alone. */
bool hosts_is_loopback(const char *address)
{
    static const char *const own[] = {"127.", "localhost:", "[::1]"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (strncmp(address, own[i], strlen(own[i])) == 0)
            return true;
    return false;
}

/* hosts_clear -- frees the entries. */
void hosts_clear(struct hosts *hosts)
{
    free(hosts->entries);
    *hosts = (struct hosts){0};
}

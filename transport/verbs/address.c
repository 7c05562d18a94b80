/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "transport/base/error.h"

#define ADDRESS_HOST_BYTES 256

/* address_bad -- reports a text that is no address. */
static int address_bad(const char *text, const char *why)
{
    return error_set(STEPGATE_EADDRESS, 0, "write host:port, or [v6 address]:port",
                     "cannot use the address '%s': %s", text, why);
}

/* address_split -- cuts a text into host and port; port is NULL when there is none. */
static const char *address_split(const char *text, char host[ADDRESS_HOST_BYTES], const char **port)
{
    const char *end;
    const char *from = text;

    *port = NULL;
    if (text[0] == '[') {
        from = text + 1;
        end = strchr(from, ']');
        if (end == NULL)
            return "no closing bracket";
        if (end[1] == ':')
            *port = end + 2;
        else if (end[1] != 0)
            return "text after the bracket";
    } else {
        end = strchr(text, ':');
        if (end != NULL)
            *port = end + 1;
        else
            end = text + strlen(text);
        if (*port != NULL && strchr(*port, ':') != NULL)
            return "a v6 address needs brackets";
    }
    if (end == from)
        return "the host is missing";
    if ((size_t)(end - from) >= ADDRESS_HOST_BYTES)
        return "the host is too long";
    memcpy(host, from, (size_t)(end - from));
    host[end - from] = 0;
    return NULL;
}

/* address_parse -- text to a socket address. */
int address_parse(const char *text, bool port_optional, struct sockaddr_storage *out)
{
    char host[ADDRESS_HOST_BYTES];
    const char *port = NULL;

    if (text == NULL)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no address given");
    const char *wrong = address_split(text, host, &port);
    if (wrong != NULL)
        return address_bad(text, wrong);
    if (port == NULL && !port_optional)
        return address_bad(text, "the port is missing");
    unsigned long number = 0;
    if (port != NULL) {
        size_t digits = strspn(port, "0123456789");
        if (digits == 0 || digits > 5 || port[digits] != 0)
            return address_bad(text, "the port is no number");
        for (size_t i = 0; i < digits; i++)
            number = number * 10 + (unsigned long)(port[i] - '0');
        if (number > 65535)
            return address_bad(text, "the port is above 65535");
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int ret = getaddrinfo(host, NULL, &hints, &list);
    if (ret != 0)
        return address_bad(text, gai_strerror(ret));
    memset(out, 0, sizeof(*out));
    memcpy(out, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    if (out->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)out)->sin6_port = htons((uint16_t)number);
    else
        ((struct sockaddr_in *)out)->sin_port = htons((uint16_t)number);
    return 0;
}

/* address_is_loopback -- an address of this host only. */
bool address_is_loopback(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

/* address_is_any -- the wildcard. */
bool address_is_any(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ((const struct sockaddr_in *)address)->sin_addr.s_addr == 0;
}

/* address_clear_port -- keeps the host alone. */
void address_clear_port(struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = 0;
    else
        ((struct sockaddr_in *)address)->sin_port = 0;
}

/* address_format -- a socket address as text. */
int address_format(const struct sockaddr *address, char *text, size_t bytes)
{
    char host[INET6_ADDRSTRLEN] = "";
    int n;

    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        (void)inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
        n = snprintf(text, bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
    } else {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
        (void)inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
        n = snprintf(text, bytes, "%s:%u", host, ntohs(v4->sin_port));
    }
    if (n < 0 || (size_t)n >= bytes)
        return error_set(STEPGATE_EINVAL, 0, NULL, "no room for an address in %zu bytes", bytes);
    return 0;
}

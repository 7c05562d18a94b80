/* SPDX-License-Identifier: BSD-3-Clause */
#include "perf/port.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/base/counters.h"
#include "transport/place/nic.h"

#define PORT_PATH 512
#define PORT_DEVICES "/sys/class/infiniband"

/* port_read -- the first line of a file below a device's folder; false: it can't be read. */
static bool port_read(const char *device, const char *below, char *line, size_t bytes)
{
    char path[2 * PORT_PATH];

    snprintf(path, sizeof(path), PORT_DEVICES "/%.200s/%s", device, below);
    FILE *file = fopen(path, "re");
    bool there = file != NULL && fgets(line, (int)bytes, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (there)
        line[strcspn(line, "\n")] = '\0';
    return there;
}

/* port_set -- such a line as a text of the conditions, or null. */
static void port_set(json_t *conditions, const char *key, const char *device, const char *below)
{
    char line[256];

    json_object_set_new(conditions, key,
                        port_read(device, below, line, sizeof(line)) && line[0] != '\0' ? json_string(line)
                                                                                        : json_null());
}

/* port_node -- the NUMA node of the device's bus, or of its network card's; null: it does not say. */
static json_t *port_node(const char *device)
{
    struct nic nic;

    nic_find(NIC_SYS, device, &nic);
    return nic.node >= 0 ? json_integer(nic.node) : json_null();
}

/* port_card -- the network card below the device; "": none that is known. */
static void port_card(const char *device, unsigned port, unsigned gid, char *card, size_t bytes)
{
    char below[128];

    snprintf(below, sizeof(below), "ports/%u/gid_attrs/ndevs/%u", port, gid);
    if (!port_read(device, below, card, bytes) && !port_read(device, "parent", card, bytes))
        card[0] = '\0';
}

/* port_gid -- its index, type and text; iWARP has none. */
static void port_gid(json_t *conditions, const char *device, unsigned port, const struct stepgate_path *path)
{
    static const uint8_t none[sizeof(path->gid)];
    char text[INET6_ADDRSTRLEN], below[128];

    if (memcmp(path->gid, none, sizeof(none)) == 0) {
        json_object_set_new(conditions, "gid", json_null());
        return;
    }
    snprintf(below, sizeof(below), "ports/%u/gid_attrs/types/%u", port, path->gid_index);
    port_set(conditions, "gid_type", device, below);
    json_object_set_new(conditions, "gid_index", json_integer(path->gid_index));
    json_object_set_new(conditions, "gid", json_string(inet_ntop(AF_INET6, path->gid, text, sizeof(text))));
}

/* port_path -- of the connection. */
static void port_path(json_t *conditions, const struct stepgate_path *path)
{
    json_object_set_new(conditions, "mtu_bytes", json_integer(path->mtu_bytes));
    json_object_set_new(conditions, "ack_timeout_ns", json_integer((json_int_t)path->ack_timeout_ns));
    json_object_set_new(conditions, "retries", json_integer(path->retries));
    json_object_set_new(conditions, "rnr_retries", json_integer(path->rnr_retries));
}

/* port_new -- see port.h. */
json_t *port_new(const char *device, const struct stepgate_path *path)
{
    unsigned port = path != NULL && path->port != 0 ? path->port : 1;
    char below[PORT_PATH], card[64] = "";

    snprintf(below, sizeof(below), PORT_DEVICES "/%s", device);
    if (strchr(device, '/') != NULL || access(below, F_OK) != 0)
        return NULL;
    json_t *c = json_object();
    json_object_set_new(c, "device", json_string(device));
    json_object_set_new(c, "port", json_integer(port));
    port_set(c, "firmware", device, "fw_ver");
    snprintf(below, sizeof(below), "ports/%u/link_layer", port);
    port_set(c, "link_layer", device, below);
    snprintf(below, sizeof(below), "ports/%u/state", port);
    port_set(c, "state", device, below);
    snprintf(below, sizeof(below), "ports/%u/rate", port);
    port_set(c, "rate", device, below);
    port_card(device, port, path != NULL ? path->gid_index : 0, card, sizeof(card));
    json_object_set_new(c, "netdev", card[0] != '\0' ? json_string(card) : json_null());
    json_object_set_new(c, "numa_node", port_node(device));
    if (path != NULL) {
        port_gid(c, device, port, path);
        port_path(c, path);
    }
    return c;
}

/* port_text -- a condition's text, or "?". */
static const char *port_text(const json_t *conditions, const char *key)
{
    const char *text = json_string_value(json_object_get(conditions, key));

    return text != NULL ? text : "?";
}

/* port_number -- a condition's number, 0 if there is none. */
static long long port_number(const json_t *conditions, const char *key)
{
    return (long long)json_integer_value(json_object_get(conditions, key));
}

/* port_line -- see port.h. */
void port_line(const json_t *c, char *out, size_t bytes)
{
    char node[32] = "no NUMA node", gid[96] = "", path[160] = "";

    if (json_is_integer(json_object_get(c, "numa_node")))
        snprintf(node, sizeof(node), "NUMA node %lld", port_number(c, "numa_node"));
    if (json_is_string(json_object_get(c, "gid")))
        snprintf(gid, sizeof(gid), ", GID %lld %.46s (%.20s)", port_number(c, "gid_index"),
                 port_text(c, "gid"), port_text(c, "gid_type"));
    if (json_object_get(c, "mtu_bytes") != NULL)
        snprintf(path, sizeof(path), ", MTU %lld, ack time-out %.3g ms, %lld retries",
                 port_number(c, "mtu_bytes"), (double)port_number(c, "ack_timeout_ns") / 1e6,
                 port_number(c, "retries"));
    snprintf(out, bytes, "%.64s port %lld: %.32s, %.32s, %s%s%s", port_text(c, "device"),
             port_number(c, "port"), port_text(c, "link_layer"), port_text(c, "rate"), node, gid, path);
}

/* port_counters -- see port.h. */
json_t *port_counters(const char *device, unsigned port)
{
    struct counters now;
    json_t *counters = json_object();

    counters_read(COUNTERS_SYS, device, port, &now);
    for (size_t i = 0; i < now.count; i++)
        json_object_set_new(counters, now.list[i].name, json_integer((json_int_t)now.list[i].value));
    return counters;
}

/* port_deltas -- see port.h. */
json_t *port_deltas(const json_t *before, const json_t *after)
{
    json_t *deltas = json_object();
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)after, name, value)
    {
        json_int_t delta = json_integer_value(value) - json_integer_value(json_object_get(before, name));
        if (delta != 0)
            json_object_set_new(deltas, name, json_integer(delta));
    }
    return deltas;
}

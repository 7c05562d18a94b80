/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/nic.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NIC_GIDS 16  /* entries of a port's table that are looked at */
#define NIC_DEPTH 4  /* of interfaces on interfaces: a VLAN on a bond on a card */
#define NIC_PATH 512 /* of what is read; sysfs's own paths are shorter */

/* nic_read -- the first word of a file; false: there is none. */
static bool nic_read(const char *path, char *out, size_t bytes)
{
    FILE *file = fopen(path, "re");
    bool read = file != NULL && fgets(out, (int)bytes, file) != NULL;

    if (file != NULL)
        fclose(file);
    if (read)
        out[strcspn(out, " \n")] = '\0';
    return read && out[0] != '\0';
}

/* nic_number -- a file with a node's number; -1: there is none, or the system does not know. */
static int nic_number(const char *path)
{
    char text[32], *end;

    if (!nic_read(path, text, sizeof(text)))
        return -1;
    long number = strtol(text, &end, 10);
    return *end == '\0' && number >= 0 && number < INT_MAX ? (int)number : -1;
}

/* nic_bus -- the node of a device of the system's, or of the bus that it hangs on: a virtio device has its number one folder up. */
static int nic_bus(const char *sys, const char *path)
{
    char at[PATH_MAX], top[PATH_MAX], file[PATH_MAX + 16];
    int node = -1;

    if (realpath(path, at) == NULL || realpath(sys, top) == NULL)
        return -1;
    size_t least = strlen(top);
    while (node < 0 && strlen(at) > least) {
        snprintf(file, sizeof(file), "%s/numa_node", at);
        node = nic_number(file);
        char *slash = strrchr(at, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    return node;
}

/* nic_lower -- the first interface that an interface lies on; false: it lies on none. */
static bool nic_lower(const char *sys, const char *interface, char *out, size_t bytes)
{
    static const char prefix[] = "lower_";
    char path[NIC_PATH];
    bool found = false;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/class/net/%s", sys, interface);
    DIR *folder = opendir(path);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        found = strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0;
        if (found)
            snprintf(out, bytes, "%.*s", (int)bytes - 1, entry->d_name + sizeof(prefix) - 1);
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* nic_of_interface -- the node of a network interface, or of what it lies on. */
static int nic_of_interface(const char *sys, const char *interface)
{
    char at[NAME_MAX + 1], lower[NAME_MAX + 1], path[NIC_PATH];
    int node = -1;

    snprintf(at, sizeof(at), "%s", interface);
    for (int depth = 0; depth < NIC_DEPTH; depth++) {
        snprintf(path, sizeof(path), "%s/class/net/%s/device", sys, at);
        node = nic_bus(sys, path);
        if (node >= 0 || !nic_lower(sys, at, lower, sizeof(lower)))
            break;
        snprintf(at, sizeof(at), "%s", lower);
    }
    return node;
}

/* nic_by_hardware_address -- the interface whose address is the beginning of an iWARP device's GID, which consists of nothing else. */
static bool nic_by_hardware_address(const char *sys, const char *name, char *out, size_t bytes)
{
    char path[NIC_PATH], gid[64] = "", address[32], wanted[32];
    unsigned word[3];
    bool found = false;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1/gids/0", sys, name);
    if (!nic_read(path, gid, sizeof(gid)) || sscanf(gid, "%4x:%4x:%4x", &word[0], &word[1], &word[2]) != 3 ||
        strcmp(gid + 14, ":0000:0000:0000:0000:0000") != 0)
        return false;
    snprintf(wanted, sizeof(wanted), "%02x:%02x:%02x:%02x:%02x:%02x", word[0] >> 8, word[0] & 0xff,
             word[1] >> 8, word[1] & 0xff, word[2] >> 8, word[2] & 0xff);
    snprintf(path, sizeof(path), "%s/class/net", sys);
    DIR *folder = opendir(path);
    while (folder != NULL && !found && (entry = readdir(folder)) != NULL) {
        snprintf(path, sizeof(path), "%s/class/net/%.64s/address", sys, entry->d_name);
        found = nic_read(path, address, sizeof(address)) && strcmp(address, wanted) == 0;
        if (found)
            snprintf(out, bytes, "%.*s", (int)bytes - 1, entry->d_name);
    }
    if (folder != NULL)
        closedir(folder);
    return found;
}

/* nic_interface -- the network interface of a device; false: it has none. */
static bool nic_interface(const char *sys, const char *name, char *out, size_t bytes)
{
    char path[NIC_PATH];

    snprintf(path, sizeof(path), "%s/class/infiniband/%s/parent", sys, name); /* rxe */
    if (nic_read(path, out, bytes))
        return true;
    for (int i = 0; i < NIC_GIDS; i++) {
        snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", sys, name, i);
        if (nic_read(path, out, bytes))
            return true;
    }
    return nic_by_hardware_address(sys, name, out, bytes);
}

/* nic_find -- its own bus first. */
void nic_find(const char *sys, const char *name, struct nic *out)
{
    struct nic nic = {.node = -1};
    char path[NIC_PATH];

    snprintf(nic.name, sizeof(nic.name), "%.*s", (int)sizeof(nic.name) - 1, name);
    snprintf(path, sizeof(path), "%s/class/infiniband/%s/device", sys, nic.name);
    nic.node = nic_bus(sys, path);
    if (nic.node < 0 && nic_interface(sys, nic.name, nic.interface, sizeof(nic.interface)))
        nic.node = nic_of_interface(sys, nic.interface);
    *out = nic;
}

/* nic_order -- by name. */
static int nic_order(const void *a, const void *b)
{
    return strcmp(((const struct nic *)a)->name, ((const struct nic *)b)->name);
}

/* nic_list -- what is in the folder of RDMA devices. */
unsigned nic_list(const char *sys, struct nic *out, unsigned max)
{
    char path[NIC_PATH];
    unsigned count = 0;
    struct dirent *entry;

    snprintf(path, sizeof(path), "%s/class/infiniband", sys);
    DIR *folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (count < max)
            nic_find(sys, entry->d_name, &out[count]);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    qsort(out, count < max ? count : max, sizeof(*out), nic_order);
    return count;
}

/* nic_describe -- for a line of text. */
void nic_describe(const struct nic *nic, char *out, size_t bytes)
{
    bool by = nic->interface[0] != '\0';

    snprintf(out, bytes, "%s%s%s", nic->name, by ? ", by its network interface " : "", nic->interface);
}

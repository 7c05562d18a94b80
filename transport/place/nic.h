/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic -- at which NUMA node an RDMA device is attached. A real one says so by its bus; a software device (rxe, siw) lies on a network
 * interface, and that one's bus is asked. Only small files of sysfs are read.
 */
#ifndef TRANSPORT_PLACE_NIC_H
#define TRANSPORT_PLACE_NIC_H

#include <stddef.h>

#define NIC_SYS "/sys"

struct nic {
    char name[64];
    char
        interface[32]; /* the network interface that was asked; "": the device's own bus, or nothing is known */
    int node;          /* the system's number; -1: it does not say */
};

/* nic_find -- sys: where sysfs is mounted. A device that is not there says nothing. */
void nic_find(const char *sys, const char *name, struct nic *out);
/* nic_list -- all devices, by name; returns their number, of which at most `max` are filled in. */
unsigned nic_list(const char *sys, struct nic *out, unsigned max);
/* nic_describe -- "rxe0, by its network interface eth0". */
void nic_describe(const struct nic *nic, char *out, size_t bytes);

#endif

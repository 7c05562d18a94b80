/* SPDX-License-Identifier: BSD-3-Clause */
/* Where an RDMA device is attached, read from a folder that looks like sysfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/place/nic.h"

static char sys[] = "/tmp/stepgate-nic-XXXXXX";

/* shell -- a line in the folder. */
static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
    char line[1024], whole[1200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof(whole), "cd %s && { %s; }", sys, line);
    assert_int_equal(system(whole), 0);
}

/* file -- with its folders. */
static void file(const char *path, const char *text)
{
    shell("mkdir -p $(dirname %s) && echo '%s' >%s", path, text, path);
}

/* make -- two cards on node 1, the second one with a virtio device between; a bond on it, a pair of virtual interfaces; RDMA devices of each kind. */
static int make(void **state)
{
    (void)state;
    if (mkdtemp(sys) == NULL)
        return -1;
    file("devices/pci1/card/numa_node", "1");
    file("devices/pci1/net/numa_node", "1");
    file("devices/pci1/lost/numa_node", "-1");
    shell("mkdir -p devices/pci1/net/virtio0 class/net class/infiniband");
    file("class/net/eth0/address", "52:54:00:12:34:56");
    shell("ln -s ../../../devices/pci1/net/virtio0 class/net/eth0/device");
    file("class/net/bond0/address", "52:54:00:00:00:01");
    shell("ln -s ../eth0 class/net/bond0/lower_eth0");
    file("class/net/v0/address", "be:00:00:00:00:07");
    shell("mkdir -p class/infiniband/mlx5_0 && ln -s ../../../devices/pci1/card "
          "class/infiniband/mlx5_0/device");
    file("class/infiniband/rxe0/parent", "eth0");
    file("class/infiniband/rxe1/parent", "v0");
    file("class/infiniband/rxe2/ports/1/gid_attrs/ndevs/3", "bond0");
    file("class/infiniband/siw0/ports/1/gids/0", "5254:0012:3456:0000:0000:0000:0000:0000");
    file("class/infiniband/siw1/ports/1/gids/0", "5254:0012:3457:0000:0000:0000:0000:0000");
    file("class/infiniband/bad0/ports/1/gids/0", "fe80");
    shell("mkdir -p class/infiniband/lost0 && ln -s ../../../devices/pci1/lost "
          "class/infiniband/lost0/device");
    return 0;
}

/* clear -- removes the folder. */
static int clear(void **state)
{
    char line[64];

    (void)state;
    snprintf(line, sizeof(line), "rm -rf %s", sys);
    return system(line);
}

/* check -- a device's node, and what says it. */
static void check(const char *name, int node, const char *described)
{
    struct nic nic;
    char text[128];

    nic_find(sys, name, &nic);
    nic_describe(&nic, text, sizeof(text));
    assert_string_equal(text, described);
    assert_int_equal(nic.node, node);
}

static void a_card_says_its_node_by_its_bus(void **state)
{
    (void)state;
    check("mlx5_0", 1, "mlx5_0");
    check("lost0", -1, "lost0");
}

static void a_software_device_is_where_its_network_interface_is(void **state)
{
    (void)state;
    check("rxe0", 1, "rxe0, by its network interface eth0");
    check("rxe1", -1, "rxe1, by its network interface v0");
    check("rxe2", 1, "rxe2, by its network interface bond0");
}

static void an_iwarp_device_is_found_by_the_hardware_address_in_its_gid(void **state)
{
    (void)state;
    check("siw0", 1, "siw0, by its network interface eth0");
    check("siw1", -1, "siw1");
    check("bad0", -1, "bad0");
}

static void a_device_that_is_not_there_says_nothing(void **state)
{
    (void)state;
    check("nosuch0", -1, "nosuch0");
    check("", -1, "");
}

static void devices_are_listed_by_name(void **state)
{
    struct nic all[16], two[2];

    (void)state;
    assert_int_equal(nic_list(sys, all, 16), 8);
    assert_string_equal(all[0].name, "bad0");
    assert_string_equal(all[7].name, "siw1");
    assert_int_equal(nic_list(sys, two, 2), 8);
    assert_int_equal(nic_list("/nowhere", all, 16), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_card_says_its_node_by_its_bus),
        cmocka_unit_test(a_software_device_is_where_its_network_interface_is),
        cmocka_unit_test(an_iwarp_device_is_found_by_the_hardware_address_in_its_gid),
        cmocka_unit_test(a_device_that_is_not_there_says_nothing),
        cmocka_unit_test(devices_are_listed_by_name),
    };
    return cmocka_run_group_tests(tests, make, clear);
}

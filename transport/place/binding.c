/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/place/binding.h"

#include <errno.h>
#include <hwloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/base/error.h"

struct binding {
    hwloc_topology_t topology; /* NULL: nothing is bound */
    hwloc_bitmap_t set;
    bool single; /* one processor per thread, not the whole set */
};

/* binding_topology -- reads the machine; with its input and output devices only if one is asked for: hwloc may look up their names in a large file. */
static int binding_topology(bool devices, hwloc_topology_t *out)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) != 0)
        return error_set(STEPGATE_ENOMEM, errno, NULL, "cannot start reading the topology");
    if (devices)
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) != 0) {
        int os_errno = errno;
        hwloc_topology_destroy(topology);
        return error_set(STEPGATE_ESYSTEM, os_errno, "set bind=none",
                         "cannot read the topology of this machine");
    }
    *out = topology;
    return 0;
}

/* binding_near -- the allowed processors beside a device; an empty set if they are not known. */
static void binding_near(hwloc_topology_t topology, const char *device, hwloc_bitmap_t set)
{
    hwloc_obj_t at = NULL;

    hwloc_bitmap_zero(set);
    if (device == NULL || device[0] == '\0')
        return;
    while ((at = hwloc_get_next_osdev(topology, at)) != NULL) {
        if (at->name == NULL || strcmp(at->name, device) != 0)
            continue;
        hwloc_obj_t home = hwloc_get_non_io_ancestor_obj(topology, at);
        if (home != NULL && home->cpuset != NULL)
            hwloc_bitmap_and(set, home->cpuset, hwloc_topology_get_allowed_cpuset(topology));
        return;
    }
}

/* binding_list -- the processors of a list, all of which must be allowed. */
static int binding_list(hwloc_topology_t topology, const char *text, hwloc_bitmap_t set)
{
    char allowed[128];
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();
    int code = 0;

    if (usable == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of processors");
    if (hwloc_get_cpubind(topology, usable, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(usable, hwloc_topology_get_allowed_cpuset(topology));
    hwloc_bitmap_list_snprintf(allowed, sizeof(allowed), usable);
    /* hwloc takes an open range (0-) and stops at what it does not know, so the characters and the
     * end are looked at here */
    size_t n = strlen(text);
    bool plain = n > 0 && strspn(text, "0123456789,-") == n && text[n - 1] >= '0';
    if (!plain || hwloc_bitmap_list_sscanf(set, text) != 0 || hwloc_bitmap_iszero(set))
        code = error_set(STEPGATE_EINVAL, 0, "give auto, none, or a list such as 0-3,8",
                         "bind: '%.64s' is no list of processors", text);
    else if (!hwloc_bitmap_isincluded(set, usable))
        code = error_set(STEPGATE_EINVAL, 0, "name allowed processors only",
                         "bind: '%.64s' holds a processor that this process may not use; allowed: %s", text,
                         allowed);
    hwloc_bitmap_free(usable);
    return code;
}

/* binding_new -- from the knob's text. */
int binding_new(const char *text, const char *device, struct binding **out)
{
    bool automatic = strcmp(text, "auto") == 0;
    struct binding *binding = calloc(1, sizeof(*binding));
    int code = 0;

    if (binding == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a binding");
    if (strcmp(text, "none") == 0 || (automatic && (device == NULL || device[0] == '\0'))) {
        *out = binding;
        return 0;
    }
    code = binding_topology(automatic, &binding->topology);
    if (code < 0)
        goto fail;
    binding->set = hwloc_bitmap_alloc();
    if (binding->set == NULL) {
        code = error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of processors");
        goto fail;
    }
    binding->single = !automatic;
    if (automatic)
        binding_near(binding->topology, device, binding->set);
    else
        code = binding_list(binding->topology, text, binding->set);
    if (code < 0)
        goto fail;
    *out = binding;
    return 0;
fail:
    binding_delete(&binding);
    return code;
}

/* binding_delete -- sets NULL. */
void binding_delete(struct binding **binding)
{
    if (*binding == NULL)
        return;
    hwloc_bitmap_free((*binding)->set);
    if ((*binding)->topology != NULL)
        hwloc_topology_destroy((*binding)->topology);
    free(*binding);
    *binding = NULL;
}

/* binding_is_empty -- whether nothing is to be bound. */
static bool binding_is_empty(const struct binding *binding)
{
    return binding->set == NULL || hwloc_bitmap_iszero(binding->set);
}

/* binding_apply -- binds the calling thread. */
int binding_apply(const struct binding *binding, unsigned index)
{
    if (binding_is_empty(binding))
        return 0;
    hwloc_bitmap_t set = hwloc_bitmap_dup(binding->set);
    if (set == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a set of processors");
    if (binding->single) {
        unsigned place = index % (unsigned)hwloc_bitmap_weight(binding->set);
        int cpu = hwloc_bitmap_first(binding->set);
        for (; place > 0; place--)
            cpu = hwloc_bitmap_next(binding->set, cpu);
        hwloc_bitmap_only(set, (unsigned)cpu);
    }
    int status = hwloc_set_cpubind(binding->topology, set, HWLOC_CPUBIND_THREAD);
    int os_errno = errno;
    hwloc_bitmap_free(set);
    if (status != 0)
        return error_set(STEPGATE_ESYSTEM, os_errno, "set bind=none",
                         "cannot bind thread %u to its processor", index);
    return 0;
}

/* binding_describe -- for the log. */
void binding_describe(const struct binding *binding, char *out, size_t bytes)
{
    char list[96];

    if (binding_is_empty(binding)) {
        snprintf(out, bytes, "none");
        return;
    }
    hwloc_bitmap_list_snprintf(list, sizeof(list), binding->set);
    snprintf(out, bytes, binding->single ? "%s" : "auto (%s)", list);
}

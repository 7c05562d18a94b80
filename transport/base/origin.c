/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/base/origin.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* origin_page -- the least that can be wiped. */
static size_t origin_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* origin_here -- see the header. */
void origin_here(struct origin *origin)
{
    char *page = mmap(NULL, origin_page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    *origin = (struct origin){.process = getpid()};
    if (page == MAP_FAILED)
        return;
    if (madvise(page, origin_page(), MADV_WIPEONFORK) != 0) {
        munmap(page, origin_page());
        return;
    }
    *page = 1;
    origin->mark = page;
}

/* origin_clear -- see the header. */
void origin_clear(struct origin *origin)
{
    if (origin->mark != NULL)
        munmap((void *)(uintptr_t)origin->mark, origin_page());
    origin->mark = NULL;
}

/* origin_is_here -- see the header. */
bool origin_is_here(const struct origin *origin)
{
    return origin->mark != NULL ? *origin->mark != 0 : getpid() == origin->process;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/share.h"

/* share_of -- of one worker */
struct share share_of(unsigned replicas, unsigned workers, unsigned rank)
{
    if (replicas <= workers)
        return (struct share){.parts = workers, .first = rank, .count = 1};
    unsigned least = replicas / workers, more = replicas % workers;
    return (struct share){
        .parts = replicas,
        .first = rank * least + (rank < more ? rank : more),
        .count = least + (rank < more),
        .several = true,
    };
}

/* share_part -- where tf takes more from a worker than its share, it goes on with those of the next */
unsigned share_part(const struct share *share, uint64_t n)
{
    return share->several ? (unsigned)((share->first + n) % share->parts) : share->first;
}

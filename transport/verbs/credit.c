/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/credit.h"

/* credit_init -- all receives of the peer are free. */
void credit_init(struct credit *credit)
{
    credit->available = CREDIT_RECEIVES;
    credit->owed = 0;
}

/* credit_may_send -- leaves the reserve alone. */
bool credit_may_send(const struct credit *credit)
{
    return credit->available > CREDIT_RESERVE;
}

/* credit_may_return -- enough is owed, and a credit is left, be it from the reserve. */
bool credit_may_return(const struct credit *credit)
{
    return credit->owed >= CREDIT_THRESHOLD && credit->available > 0;
}

/* credit_take -- consumes one. */
void credit_take(struct credit *credit)
{
    credit->available--;
}

/* credit_owe -- counts reposted receives. */
void credit_owe(struct credit *credit, uint32_t n)
{
    credit->owed += n;
}

/* credit_claim -- takes what is owed for a frame. */
uint16_t credit_claim(struct credit *credit)
{
    uint16_t n = (uint16_t)credit->owed; /* at most CREDIT_RECEIVES */
    credit->owed = 0;
    return n;
}

/* credit_gain -- adds what the peer announced. */
bool credit_gain(struct credit *credit, uint32_t n)
{
    if (n > CREDIT_RECEIVES - credit->available)
        return false;
    credit->available += n;
    return true;
}

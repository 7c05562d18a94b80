/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/exchange.h"

/* exchange_parameter -- network_traffic's view of the operation */
static int exchange_parameter(void *context, unsigned variable, const float **value)
{
    struct exchange *exchange = context;
    return exchange->operations->parameter(exchange, variable, value);
}

/* exchange_gradient -- network_traffic's view of the operation */
static int exchange_gradient(void *context, unsigned variable, float **value)
{
    struct exchange *exchange = context;
    return exchange->operations->gradient(exchange, variable, value);
}

/* exchange_ready -- network_traffic's view of the operation */
static int exchange_ready(void *context, unsigned variable)
{
    struct exchange *exchange = context;
    return exchange->operations->push(exchange, variable);
}

/* exchange_traffic -- the way the network's passes use an exchange */
struct network_traffic exchange_traffic(struct exchange *exchange)
{
    return (struct network_traffic){
        .context = exchange,
        .parameter = exchange_parameter,
        .gradient = exchange_gradient,
        .ready = exchange_ready,
    };
}

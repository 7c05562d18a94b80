/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/shm/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/shm/shm.h"

#define FABRIC_CONNECT_MS 5000

/* shm_number -- so few bytes come whole or not at all. */
int shm_number(uint64_t *out)
{
    uint64_t number = 0;

    while (number == 0)
        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number) && errno != EINTR)
            return error_set(STEPGATE_ESYSTEM, errno, NULL, "the kernel gives no random numbers");
    *out = number;
    return 0;
}

/* shm_fabric_open -- there is one device; address, device and peer say nothing here. */
int shm_fabric_open(const struct stepgate_fabric_options *options, struct stepgate_fabric **out)
{
    struct shm_fabric *fabric = calloc(1, sizeof(*fabric));

    if (fabric == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a fabric");
    uint32_t operations = options != NULL ? options->operations : 0;
    int ms = options != NULL ? options->connect_timeout_ms : 0;
    if (operations == 0)
        operations = SHM_OPERATIONS;
    if (operations < SHM_OPERATIONS_LEAST)
        operations = SHM_OPERATIONS_LEAST;
    if (operations > SHM_OPERATIONS_MOST)
        operations = SHM_OPERATIONS_MOST;
    fabric->base.transport = shm_transport();
    fabric->base.device = "shm";
    fabric->operations = operations;
    fabric->connect_timeout_ns = (uint64_t)(ms > 0 ? ms : FABRIC_CONNECT_MS) * CLOCK_MS;
    *out = &fabric->base;
    return 0;
}

/* shm_fabric_delete -- everything made from it is gone by now. */
void shm_fabric_delete(struct stepgate_fabric **fabric)
{
    if (fabric == NULL || *fabric == NULL)
        return;
    free(*fabric);
    *fabric = NULL;
}

/* shm_domain_new -- a number is all there is to a domain. */
int shm_domain_new(struct stepgate_fabric *fabric, struct stepgate_domain **out)
{
    struct shm_domain *domain = calloc(1, sizeof(*domain));

    if (domain == NULL)
        return error_set(STEPGATE_ENOMEM, 0, NULL, "no memory for a domain");
    int status = shm_number(&domain->number);
    if (status < 0) {
        free(domain);
        return status;
    }
    domain->base.transport = shm_transport();
    domain->fabric = (struct shm_fabric *)fabric;
    *out = &domain->base;
    return 0;
}

/* shm_domain_delete -- its regions and endpoints are gone by now. */
void shm_domain_delete(struct stepgate_domain **domain)
{
    if (domain == NULL || *domain == NULL)
        return;
    free(*domain);
    *domain = NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * step-bytes -- two workers of a job over verbs, as threads of one process, whose work requests are counted where they are handed to the device, and
 * whose packets are counted by the network's interface.
 *
 *     step-bytes PS_HOSTS SECRET_FILE INTERFACE MTU ELEMENTS STEPS
 *
 * In STEPS steps two workers post exactly the bytes of their gradients and of their parameters, and less than 1 % more. On the wire these are so many
 * packets of MTU bytes (0: the device cuts streams as it likes: only bytes are looked at), and a few that control. Status 0: so it was.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stepgate/stepgate.h"
#include "transport/verbs/seam.h"

#define BYTES_WORKERS 2
#define BYTES_FIRST 3       /* steps before those that are counted */
#define BYTES_GROUP 1048576 /* bytes of a group of chunks, of which there are at most 8 */
#define BYTES_MORE 1.01     /* what may be posted beyond the arrays themselves */

struct bytes_count {
    uint64_t written, read, sent; /* bytes of requests posted */
    uint64_t requests, calls;     /* posted; in so many calls of the driver */
    uint64_t sent_packets, sent_bytes, received_packets, received_bytes; /* of the interface */
};

/* Relaxed: read at barriers, when no worker posts. */
static struct {
    atomic_ullong written, read, sent, requests, calls;
} bytes_now;
static const char *bytes_hosts, *bytes_secret, *bytes_interface;
static uint64_t bytes_elements, bytes_steps;
static pthread_barrier_t bytes_barrier;
static struct bytes_count bytes_counts[2];

/* bytes_posted -- one work request. */
static void bytes_posted(void *context, const struct ibv_send_wr *wr, uint64_t bytes)
{
    (void)context;
    atomic_fetch_add_explicit(&bytes_now.requests, 1, memory_order_relaxed);
    switch (wr->opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        atomic_fetch_add_explicit(&bytes_now.written, bytes, memory_order_relaxed);
        break;
    case IBV_WR_RDMA_READ: atomic_fetch_add_explicit(&bytes_now.read, bytes, memory_order_relaxed); break;
    default: atomic_fetch_add_explicit(&bytes_now.sent, bytes, memory_order_relaxed); break;
    }
}

/* bytes_post_send -- one call of the driver. */
static int bytes_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    atomic_fetch_add_explicit(&bytes_now.calls, 1, memory_order_relaxed);
    return ibv_post_send(qp, wr, bad);
}

/* bytes_of_interface -- one of its counters. */
static uint64_t bytes_of_interface(const char *name)
{
    char path[256];
    uint64_t value = 0;

    snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", bytes_interface, name);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%" SCNu64, &value) != 1)
        fprintf(stderr, "step-bytes: cannot read %s\n", path);
    if (file != NULL)
        fclose(file);
    return value;
}

/* bytes_take -- all counters. */
static void bytes_take(struct bytes_count *out)
{
    out->written = atomic_load_explicit(&bytes_now.written, memory_order_relaxed);
    out->read = atomic_load_explicit(&bytes_now.read, memory_order_relaxed);
    out->sent = atomic_load_explicit(&bytes_now.sent, memory_order_relaxed);
    out->requests = atomic_load_explicit(&bytes_now.requests, memory_order_relaxed);
    out->calls = atomic_load_explicit(&bytes_now.calls, memory_order_relaxed);
    out->sent_packets = bytes_of_interface("tx_packets");
    out->sent_bytes = bytes_of_interface("tx_bytes");
    out->received_packets = bytes_of_interface("rx_packets");
    out->received_bytes = bytes_of_interface("rx_bytes");
}

/* bytes_join -- a worker. */
static int bytes_join(int rank, struct stepgate_options **options, struct stepgate_job **job)
{
    char number[8];
    int status = stepgate_options_new(options);

    snprintf(number, sizeof(number), "%d", rank);
    const char *const pairs[][2] = {
        {"transport", "verbs"}, {"ps_hosts", bytes_hosts},     {"workers", "2"},
        {"task_index", number}, {"secret_file", bytes_secret}, {"join_timeout", "60s"},
        {"step_timeout", "60s"}};
    for (size_t i = 0; status >= 0 && i < sizeof(pairs) / sizeof(pairs[0]); i++)
        status = stepgate_options_set(*options, pairs[i][0], pairs[i][1]);
    return status >= 0 ? stepgate_job_join(*options, -1, job) : status;
}

/* bytes_declare -- two variables, one of them with a quarter of the elements. */
static int bytes_declare(struct stepgate_job *job, struct stepgate_model **model, int ids[2])
{
    const uint64_t sizes[2] = {bytes_elements - bytes_elements / 4, bytes_elements / 4};
    int status = stepgate_model_new(job, "bytes", model);

    for (int v = 0; status >= 0 && v < 2; v++)
        status = stepgate_model_variable(*model, v == 0 ? "large" : "small", STEPGATE_TRAINED, STEPGATE_F32,
                                         1, &sizes[v], &ids[v]);
    return status >= 0 ? stepgate_model_commit(*model, -1, NULL) : status;
}

/* bytes_loop -- every worker is between two steps when the counters are taken: it has its token and nothing under way. */
static int bytes_loop(struct stepgate_model *model, const int ids[2])
{
    struct stepgate_step_info info = {.size = sizeof(info)};
    int status = 0;

    for (uint64_t k = 0; status >= 0 && k <= BYTES_FIRST + bytes_steps; k++) {
        status = stepgate_step_begin(model, -1, &info);
        if (status >= 0 && (k == BYTES_FIRST || k == BYTES_FIRST + bytes_steps)) {
            if (pthread_barrier_wait(&bytes_barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
                bytes_take(&bytes_counts[k != BYTES_FIRST]);
            pthread_barrier_wait(&bytes_barrier);
        }
        if (status >= 0)
            status = stepgate_step_pull(model, STEPGATE_ALL, -1, NULL);
        for (int v = 0; status >= 0 && v < 2; v++)
            status = stepgate_step_push(model, ids[v]);
        if (status >= 0)
            status = stepgate_step_finish(model, 1);
    }
    return status;
}

/* bytes_worker -- a thread. */
static void *bytes_worker(void *context)
{
    struct stepgate_options *options = NULL;
    struct stepgate_job *job = NULL;
    struct stepgate_model *model = NULL;
    int ids[2], status = bytes_join(*(int *)context, &options, &job);

    if (status >= 0)
        status = bytes_declare(job, &model, ids);
    if (status >= 0)
        status = bytes_loop(model, ids);
    if (status >= 0)
        status = stepgate_job_leave(job, -1);
    if (status < 0) {
        struct stepgate_error error = {.size = sizeof(error)};
        stepgate_error_last(&error);
        fprintf(stderr, "step-bytes: %s\n", error.text);
        exit(1);
    }
    stepgate_model_delete(&model);
    stepgate_job_delete(&job);
    stepgate_options_delete(&options);
    return NULL;
}

/* bytes_check -- one line: what, between which bounds, is it? */
static int bytes_check(const char *what, double least, double value, double most)
{
    int good = value >= least && value <= most;

    printf("%-34s %14.0f  from %14.0f to %14.0f  %s\n", what, value, least, most, good ? "yes" : "NO");
    return good ? 0 : 1;
}

/* bytes_judge -- see the top. */
static int bytes_judge(double mtu)
{
    const struct bytes_count *a = &bytes_counts[0], *b = &bytes_counts[1];
    double arrays = 4.0 * (double)(bytes_elements * bytes_steps * BYTES_WORKERS);
    double pushed = (double)(b->written + b->sent - a->written - a->sent),
           pulled = (double)(b->read - a->read);
    int bad = bytes_check("bytes written and sent", arrays, pushed, arrays * BYTES_MORE);

    bad += bytes_check("bytes read", arrays, pulled, arrays * BYTES_MORE);
    uint64_t groups = bytes_elements * 4 / BYTES_GROUP + 1;
    /* One for each group that is pushed and for each that is pulled; a border between two variables makes one more; tokens, seals and credits. */
    groups = groups > 8 ? 8 : groups;
    bad += bytes_check("calls of the driver", 1, (double)(b->calls - a->calls),
                       (double)(bytes_steps * BYTES_WORKERS * (2 * (groups + 1) + 4)));
    printf("%-34s %14" PRIu64 "\n", "work requests", b->requests - a->requests);
    bad += bytes_check("bytes that left the interface", pushed, (double)(b->sent_bytes - a->sent_bytes),
                       pushed * 1.2);
    bad += bytes_check("bytes that came to the interface", pulled,
                       (double)(b->received_bytes - a->received_bytes), pulled * 1.2);
    if (mtu > 0) {
        bad += bytes_check("packets that left the interface", pushed / mtu,
                           (double)(b->sent_packets - a->sent_packets), pushed / mtu * 1.15);
        bad += bytes_check("packets that came to the interface", pulled / mtu,
                           (double)(b->received_packets - a->received_packets), pulled / mtu * 1.15);
    }
    return bad;
}

int main(int argc, char **argv)
{
    static const struct seam_hook hook = {.posted = bytes_posted, .post_send = bytes_post_send};
    pthread_t threads[BYTES_WORKERS];
    int ranks[BYTES_WORKERS] = {0, 1};

    if (argc != 7) {
        fputs("usage: step-bytes PS_HOSTS SECRET_FILE INTERFACE MTU ELEMENTS STEPS\n", stderr);
        return 2;
    }
    bytes_hosts = argv[1];
    bytes_secret = argv[2];
    bytes_interface = argv[3];
    bytes_elements = strtoull(argv[5], NULL, 10);
    bytes_steps = strtoull(argv[6], NULL, 10);
    seam_hook_set(&hook);
    pthread_barrier_init(&bytes_barrier, NULL, BYTES_WORKERS);
    for (int w = 0; w < BYTES_WORKERS; w++)
        if (pthread_create(&threads[w], NULL, bytes_worker, &ranks[w]) != 0)
            return 1;
    for (int w = 0; w < BYTES_WORKERS; w++)
        pthread_join(threads[w], NULL);
    return bytes_judge(strtod(argv[4], NULL)) == 0 ? 0 : 1;
}

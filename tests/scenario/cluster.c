/* SPDX-License-Identifier: BSD-3-Clause */
/* cluster -- how a job is made, and how it ends. */
#include "tests/scenario/cluster.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scenario/inside.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"
#include "transport/base/log.h"

#define CLUSTER_JOIN_MS 15000

/* cluster_fail -- see cluster.h. */
int cluster_fail(struct ground *ground, const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    int used = snprintf(ground->why, sizeof(ground->why), "%s:%d: ", base != NULL ? base + 1 : file, line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(ground->why + used, sizeof(ground->why) - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

/* cluster_error -- see inside.h. */
int cluster_error(struct ground *ground, const char *what, int status)
{
    struct stepgate_error error;

    error_save(&error);
    return FAIL(ground, "%s: %d %s", what, status, error.text);
}

/* cluster_now -- see cluster.h. */
uint64_t cluster_now(const struct cluster *c)
{
    return c->ground->simulated ? world_now_ns(c->world) : clock_now();
}

/* cluster_fabric -- opens one for a process of that name. */
static int cluster_fabric(struct cluster *c, const char *name, struct world_node **node,
                          struct stepgate_fabric **out)
{
    struct stepgate_fabric_options options = {.size = sizeof(options), .address = c->ground->host};

    if (c->ground->simulated) {
        int status = world_node_new(c->world, name, node);
        if (status != 0)
            return status;
        options.world = *node;
        options.address = NULL;
    }
    return c->ground->transport->fabric_open(&options, out);
}

/* cluster_keep_set -- whose contributions made a step. */
static int cluster_keep_set(void *context, const char *model, uint64_t step, uint32_t *ranks, uint32_t count)
{
    struct cluster *c = context;

    (void)model;
    if (step >= CLUSTER_SETS_MAX)
        return 0;
    c->sets[step] = 0;
    for (uint32_t i = 0; i < count; i++)
        c->sets[step] |= 1u << ranks[i];
    c->set_count = step + 1;
    return 0;
}

/* cluster_give_set -- the same again. */
static bool cluster_give_set(void *context, const char *model, uint64_t step, const uint32_t **ranks,
                             uint32_t *count)
{
    struct cluster *c = context;

    (void)model;
    if (step >= CLUSTER_SETS_MAX)
        return false;
    *count = 0;
    for (uint32_t w = 0; w < c->workers; w++)
        if (c->job.replay[step] >> w & 1u)
            c->set_ranks[(*count)++] = w;
    *ranks = c->set_ranks;
    return true;
}

/* cluster_aside -- what takes long is done later: nobody knows when. */
static int cluster_aside(void *context, void (*work)(void *), void *what)
{
    struct cluster_ps *ps = context;

    if (ps->aside_count == CLUSTER_ASIDES_MAX)
        return error_set(STEPGATE_ENOMEM, 0, "", "too much goes on aside");
    ps->asides[ps->aside_count] = work;
    ps->aside_of[ps->aside_count++] = what;
    return 0;
}

/* cluster_asides -- see inside.h. */
int cluster_asides(struct cluster *c, uint32_t s, bool all)
{
    struct cluster_ps *ps = &c->ps[s];
    int done = 0;

    while (ps->aside_count > 0 && (all || done == 0)) {
        uint32_t last = --ps->aside_count;
        ps->asides[last](ps->aside_of[last]);
        done = 1;
    }
    return done;
}

/* cluster_hear -- what a ps says. */
static void cluster_hear(void *context, int level, const char *line)
{
    struct cluster *c = context;

    if (level <= LOG_WARN)
        snprintf(c->said, sizeof(c->said), "%s", line);
}

/* cluster_make_lane -- with its queue. */
static int cluster_make_lane(struct cluster *c, uint32_t s, uint32_t l)
{
    struct cluster_ps *ps = &c->ps[s];
    int status = c->ground->transport->queue_new(ps->fabric, 2 * c->workers + 8, &ps->lane_queues[l]);
    const struct lane_config config = {.number = l,
                                       .workers = c->workers,
                                       .shard = s,
                                       .shards = c->shards,
                                       .queues = {ps->lane_queues[l]},
                                       .job = hello_job_hash("scenario"),
                                       .incarnation = 100 + s,
                                       .secret = &c->secret,
                                       .to_shard = &ps->mailbox};

    return status != 0 ? status : lane_new(&config, &ps->lanes[l]);
}

/* cluster_make_shard -- once its lanes are there. */
static int cluster_make_shard(struct cluster *c, uint32_t s)
{
    struct cluster_ps *ps = &c->ps[s];
    const struct cluster_job *job = &c->job;
    struct shard_config config = {.number = s,
                                  .shards = c->shards,
                                  .workers = c->workers,
                                  .lanes = c->lanes,
                                  .listen = ps->address,
                                  .leader = s > 0 ? c->ps[0].address : NULL,
                                  .fabrics = {{ps->fabric, ps->queue}},
                                  .lane_list = ps->lanes,
                                  .mailbox = &ps->mailbox,
                                  .job = "scenario",
                                  .secret = &c->secret,
                                  .incarnation = 100 + s,
                                  .kernels = (enum optimizer_kind)optimizer_kind_of("auto"),
                                  .group_bytes = job->group_bytes != 0 ? job->group_bytes : 1u << 20,
                                  .cut_bytes = job->cut_bytes != 0 ? job->cut_bytes : 1u << 28,
                                  .join_timeout_ms = CLUSTER_JOIN_MS,
                                  .close_timeout_ms = 1000,
                                  .step_timeout_ms = job->step_timeout_ms,
                                  .lost = job->lost,
                                  .return_timeout_ms = job->return_ms != 0 ? job->return_ms : CLUSTER_JOIN_MS,
                                  .memory_available = job->memory,
                                  .memory_lockable = job->lockable,
                                  .stall_report_ms = job->stall_report_ms,
                                  .log = {cluster_hear, c, LOG_WARN},
                                  .record = cluster_keep_set,
                                  .sets_context = c};
    if (job->replay != NULL)
        config.replay = cluster_give_set;
    if (job->store != NULL) {
        config.archive = &job->store->archive;
        config.aside = cluster_aside;
        config.aside_context = ps;
    }
    int status = shard_new(&config, cluster_now(c), &ps->shard);

    if (status == 0)
        snprintf(ps->address, sizeof(ps->address), "%s", shard_address(ps->shard));
    return status;
}

/* cluster_make_ps -- a process with a shard and its lanes. */
static int cluster_make_ps(struct cluster *c, uint32_t s)
{
    struct cluster_ps *ps = &c->ps[s];
    const char *host = c->ground->host != NULL ? c->ground->host : "127.0.0.1";
    char name[32];

    snprintf(name, sizeof(name), "ps%u", s);
    if (c->ground->simulated)
        host = name;
    snprintf(ps->address, sizeof(ps->address), strchr(host, ':') != NULL ? "[%s]:0" : "%s:0", host);
    mailbox_init(&ps->mailbox);
    int status = cluster_fabric(c, name, &ps->node, &ps->fabric);
    if (status == 0)
        status = c->ground->transport->queue_new(ps->fabric, 2 * c->workers + c->shards + 8, &ps->queue);
    for (uint32_t l = 0; status == 0 && l < c->lanes; l++)
        status = cluster_make_lane(c, s, l);
    return status != 0 ? status : cluster_make_shard(c, s);
}

/* cluster_make_worker -- a process with a session. */
static int cluster_make_worker(struct cluster *c, uint32_t w)
{
    const struct stepgate_transport_v1 *transport = c->ground->transport;
    struct cluster_worker *worker = &c->worker[w];
    const char *addresses[CLUSTER_SHARDS_MAX];
    char name[32];

    snprintf(name, sizeof(name), worker->lives > 0 ? "worker%u-%u" : "worker%u", w, worker->lives);
    worker->weight = 1;
    int status = cluster_fabric(c, name, &worker->node, &worker->fabric);
    if (status == 0)
        status =
            transport->queue_new(worker->fabric, 2 * c->shards * c->lanes + c->shards + 8, &worker->queue);
    if (status == 0)
        status = transport->domain_new(worker->fabric, &worker->domain);
    for (uint32_t s = 0; s < c->shards; s++)
        addresses[s] = c->ps[s].address;
    const struct session_config config = {.rank = w,
                                          .workers = c->workers,
                                          .shards = c->shards,
                                          .addresses = addresses,
                                          .routes = {{worker->queue, worker->domain}},
                                          .job = "scenario",
                                          .secret = c->secret,
                                          .incarnation = 1000 + w + CLUSTER_WORKERS_MAX * worker->lives,
                                          .join_timeout_ms = CLUSTER_JOIN_MS};
    return status != 0 ? status : session_new(&config, cluster_now(c), &worker->session);
}

/* cluster_each_pair -- calls set(model, id, key, value) for every "key=value" of a text. */
static int cluster_each_pair(struct model *model, uint32_t id, const char *text,
                             int (*set)(struct model *, uint32_t, const char *, const char *))
{
    char copy[512], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", text != NULL ? text : "");
    for (char *pair = strtok_r(copy, " ", &rest); pair != NULL; pair = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(pair, '=');
        if (value == NULL)
            return error_set(STEPGATE_EINVAL, 0, "", "%s has no value", pair);
        *value = 0;
        int status = set(model, id, pair, value + 1);
        if (status != 0)
            return status;
    }
    return 0;
}

/* cluster_set_key -- of the model. */
static int cluster_set_key(struct model *model, uint32_t id, const char *key, const char *value)
{
    (void)id;
    return model_set(model, key, value);
}

/* cluster_declare_variable -- with its options and initial values. */
static int cluster_declare_variable(struct cluster *c, uint32_t w, uint32_t v)
{
    static const uint64_t one = 1;
    const struct cluster_variable *variable = &c->job.variables[v];
    struct session_model *model = c->worker[w].model;
    struct model *declared = session_model_declared(model);
    int rank = variable->dims[0] == 0 ? 1 : variable->dims[1] == 0 ? 1 : 2;
    int status = model_add(declared, variable->name, variable->kind != 0 ? variable->kind : STEPGATE_TRAINED,
                           variable->dtype != 0 ? variable->dtype : STEPGATE_F32, rank,
                           variable->dims[0] != 0 ? variable->dims : &one);

    if (status >= 0)
        status = cluster_each_pair(declared, v, variable->options, model_variable_set);
    if (status != 0)
        return status;
    const struct model_variable *mv = &declared->variables[v];
    c->elements[v] = mv->elements;
    if (variable->initial_count == 0)
        return 0;
    void *bytes = malloc(mv->bytes);
    cluster_narrow(mv->dtype, variable->initial, variable->initial_count, bytes, mv->elements);
    /* What others give as initial values is never looked at. */
    if (w != 0)
        memset(bytes, 0x3f, mv->bytes);
    status = session_model_initialize(model, v, bytes, mv->bytes);
    free(bytes);
    return status;
}

/* cluster_declare -- see inside.h. */
int cluster_declare(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];
    const char *keys = c->job.keys != NULL ? c->job.keys : "";
    int status = session_model_new(worker->session, "m", &worker->model);

    for (uint32_t v = 0; status == 0 && v < c->variables; v++)
        status = cluster_declare_variable(c, w, v);
    struct model *declared = status == 0 ? session_model_declared(worker->model) : NULL;
    if (status == 0 && strstr(keys, "learning_rate=") == NULL && strstr(keys, "optimizer=none") == NULL)
        status = model_set(declared, "learning_rate", "2");
    return status != 0 ? status : cluster_each_pair(declared, 0, keys, cluster_set_key);
}

/* cluster_try_join -- session_join_try of a worker. */
static int cluster_try_join(struct cluster *c, uint32_t w)
{
    return session_join_try(c->worker[w].session, cluster_now(c));
}

/* cluster_try_commit -- session_commit_try of a worker. */
static int cluster_try_commit(struct cluster *c, uint32_t w)
{
    return session_commit_try(c->worker[w].model, cluster_now(c), &c->worker[w].start);
}

/* cluster_until -- until the workers from `first` to `end` - 1 have done what is to be tried. */
static int cluster_until(struct cluster *c, uint32_t first, uint32_t end, const char *what,
                         int (*try)(struct cluster *c, uint32_t w))
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);
    uint32_t there = first;

    for (bool done[CLUSTER_WORKERS_MAX] = {false}; there < end;) {
        for (uint32_t w = first; w < end; w++) {
            int status = done[w] ? 0 : try(c, w);
            if (status != 0 && status != -STEPGATE_EAGAIN)
                return cluster_error(c->ground, what, status);
            there += status == 0 && !done[w];
            done[w] = done[w] || status == 0;
        }
        if (cluster_now(c) >= until)
            return FAIL(c->ground, "%s: %u of %u workers are ready in time", what, there - first,
                        end - first);
        cluster_pass(c, until);
    }
    return 0;
}

/* cluster_shape -- numbers of the job, and a world for it. */
static int cluster_shape(struct cluster *c, const struct cluster_job *job)
{
    struct world_options options;

    c->job = *job;
    c->shards = job->shards != 0 ? job->shards : 1;
    c->lanes = job->lanes != 0 ? job->lanes : 1;
    c->workers = job->workers != 0 ? job->workers : 1;
    while (c->variables < CLUSTER_VARIABLES_MAX && job->variables[c->variables].name != NULL)
        c->variables++;
    random_seed(&c->random, c->ground->seed);
    c->secret.bytes = 32;
    for (size_t i = 0; i < c->secret.bytes; i++)
        c->secret.data[i] = (uint8_t)random_next(&c->random);
    if (!c->ground->simulated)
        return 0;
    world_options_default(&options, random_next(&c->random));
    options.mapped = c->ground->mapped;
    return world_new(&options, &c->world);
}

/* cluster_meet -- a job whose workers have joined. */
static int cluster_meet(struct ground *ground, const struct cluster_job *job, struct cluster **out)
{
    struct cluster *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return FAIL(ground, "no memory");
    c->ground = ground;
    int status = cluster_shape(c, job);
    for (uint32_t s = 0; status == 0 && s < c->shards; s++)
        status = cluster_make_ps(c, s);
    for (uint32_t w = 0; status == 0 && w < c->workers; w++)
        status = cluster_make_worker(c, w);
    if (status != 0)
        cluster_error(ground, "the job could not be set up", status);
    else
        status = cluster_until(c, 0, c->workers, "join", cluster_try_join);
    if (status != 0) {
        cluster_drop(&c);
        return -1;
    }
    *out = c;
    return 0;
}

/* cluster_open -- see cluster.h. */
int cluster_open(struct ground *ground, const struct cluster_job *job, struct cluster **out)
{
    struct cluster *c;
    int status = cluster_meet(ground, job, &c);

    if (status != 0)
        return status;
    for (uint32_t w = 0; status == 0 && w < c->workers; w++) {
        status = cluster_declare(c, w);
        if (status != 0)
            cluster_error(ground, "the model could not be declared", status);
        /* As in the worked examples: worker w pushes 0.1 + 0.2 w. */
        for (uint32_t v = 0; v < c->variables; v++)
            cluster_gradient(c, w, v, 1, (const double[]){0.1 + 0.2 * w});
    }
    if (status == 0)
        status = cluster_until(c, 0, c->workers, "commit", cluster_try_commit);
    for (uint32_t w = 0; w < c->workers; w++)
        c->worker[w].state = CLUSTER_WAITS;
    if (status == 0)
        status = cluster_settle(c);
    for (uint32_t w = 0; status == 0 && w < c->workers; w++)
        if (c->worker[w].state != CLUSTER_HAS_TOKEN)
            status = FAIL(ground, "worker %u cannot begin: %s", w, c->worker[w].text);
    if (status != 0) {
        cluster_drop(&c);
        return -1;
    }
    *out = c;
    return 0;
}

/* cluster_refused -- see cluster.h. */
int cluster_refused(struct ground *ground, const struct cluster_job *job, int code, const char *word)
{
    struct cluster *c;
    struct stepgate_error error = {0};

    if (cluster_meet(ground, job, &c) != 0)
        return -1;
    for (uint32_t w = 0; w < c->workers; w++) {
        int status = cluster_declare(c, w);
        if (status == 0)
            status = session_commit_try(c->worker[w].model, cluster_now(c), NULL);
        error_save(&error);
        if (status != -code || strstr(error.text, word) == NULL) {
            FAIL(ground, "worker %u: the model \"%s\" gives %d (%s), not %d with \"%s\"", w,
                 job->keys != NULL ? job->keys : "", status, error.text, -code, word);
            cluster_drop(&c);
            return -1;
        }
    }
    cluster_drop(&c);
    return 0;
}

/* cluster_clear_worker -- deletes a worker's process. */
static void cluster_clear_worker(struct cluster_worker *worker)
{
    session_delete(&worker->session);
    if (worker->domain != NULL)
        worker->domain->transport->domain_delete(&worker->domain);
    if (worker->queue != NULL)
        worker->queue->transport->queue_delete(&worker->queue);
    if (worker->fabric != NULL)
        worker->fabric->transport->fabric_delete(&worker->fabric);
    for (uint32_t v = 0; v < CLUSTER_VARIABLES_MAX; v++) {
        free(worker->pulls[v].values);
        worker->pulls[v] = (struct cluster_pull){0};
    }
}

/* cluster_return_begin -- see cluster.h. */
int cluster_return_begin(struct cluster *c, uint32_t w)
{
    struct cluster_worker *worker = &c->worker[w];

    cluster_clear_worker(worker);
    worker->lives++;
    int status = cluster_make_worker(c, w);
    if (status != 0)
        return cluster_error(c->ground, "a worker cannot come back", status);
    worker->state = CLUSTER_JOINS;
    return 0;
}

/* cluster_return -- see cluster.h. */
int cluster_return(struct cluster *c, uint32_t w)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);
    const struct cluster_worker *worker = &c->worker[w];
    int status = cluster_return_begin(c, w);

    while (status == 0 && (worker->state == CLUSTER_JOINS || worker->state == CLUSTER_COMMITS) &&
           cluster_now(c) < until)
        cluster_pass(c, until);
    if (status == 0 && worker->state != CLUSTER_WAITS && worker->state != CLUSTER_HAS_TOKEN)
        status =
            FAIL(c->ground, "worker %u does not come back: state %d, %s", w, worker->state, worker->text);
    return status == 0 ? cluster_settle(c) : status;
}

/* cluster_clear_ps -- deletes a ps's process. */
static void cluster_clear_ps(struct cluster *c, uint32_t s)
{
    struct cluster_ps *ps = &c->ps[s];

    cluster_asides(c, s, true);
    for (uint32_t l = 0; l < CLUSTER_LANES_MAX; l++)
        lane_delete(&ps->lanes[l]);
    shard_delete(&ps->shard);
    for (uint32_t l = 0; l < CLUSTER_LANES_MAX; l++)
        if (ps->lane_queues[l] != NULL)
            ps->lane_queues[l]->transport->queue_delete(&ps->lane_queues[l]);
    if (ps->queue != NULL)
        ps->queue->transport->queue_delete(&ps->queue);
    if (ps->fabric != NULL) {
        ps->fabric->transport->fabric_delete(&ps->fabric);
        mailbox_clear(&ps->mailbox);
    }
}

/* cluster_clear -- everything but the world. */
static void cluster_clear(struct cluster *c)
{
    for (uint32_t w = 0; w < c->workers; w++)
        cluster_clear_worker(&c->worker[w]);
    for (uint32_t s = 0; s < c->shards; s++)
        cluster_clear_ps(c, s);
    for (uint64_t h = 0; h < c->history_count; h++)
        for (uint32_t v = 0; v < CLUSTER_VARIABLES_MAX; v++)
            free(c->history[h].values[v]);
    free(c->history);
}

/* cluster_drop -- see cluster.h. */
void cluster_drop(struct cluster **out)
{
    struct cluster *c = *out;

    if (c == NULL)
        return;
    cluster_clear(c);
    world_delete(&c->world);
    free(c);
    *out = NULL;
}

/* cluster_ended -- the shards end by themselves, well. */
static int cluster_ended(struct cluster *c)
{
    uint64_t until = clock_after(cluster_now(c), CLUSTER_LIMIT_MS);
    struct shard_stats stats;

    for (uint32_t s = 0; s < c->shards; s++) {
        while (!c->ps[s].over) {
            if (cluster_now(c) >= until)
                return FAIL(c->ground, "ps %u does not end", s);
            cluster_pass(c, until);
        }
        if (c->ps[s].status != 0)
            return FAIL(c->ground, "ps %u ends with %d", s, c->ps[s].status);
        shard_stats(c->ps[s].shard, &stats);
        c->ground->steps += stats.steps;
        cluster_clear_ps(c, s); /* the others wait for the end of its process */
    }
    return 0;
}

/* cluster_close -- see cluster.h. */
int cluster_close(struct cluster **out)
{
    struct cluster *c = *out;
    int status = 0;

    for (uint32_t w = 0; status == 0 && w < c->workers; w++)
        if (c->worker[w].state != CLUSTER_AWAY)
            status = cluster_leave(c, w);
    if (status == 0)
        status = cluster_ended(c);
    cluster_clear(c);
    if (status == 0 && c->world != NULL && world_objects(c->world) != 0)
        status = FAIL(c->ground, "%u objects of the transport were left behind", world_objects(c->world));
    world_delete(&c->world);
    free(c);
    *out = NULL;
    return status;
}

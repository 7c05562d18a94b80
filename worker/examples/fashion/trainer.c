/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "worker/examples/fashion/batch.h"
#include "worker/examples/fashion/evaluation.h"
#include "worker/examples/fashion/interrupt.h"
#include "worker/examples/fashion/matrix.h"
#include "worker/examples/fashion/progress.h"

enum {
    TRAINER_POINTS = 200,        /* of the loss, in a whole run */
    TRAINER_JUDGEMENTS = 16,     /* of the accuracy, at most, in a whole run */
    TRAINER_LOSS_IMAGES = 10000, /* that the final loss is taken over */
    TRAINER_LOST_STEPS = 10 /* without any loss that is a number, after which none is expected any more */
};

struct trainer {
    const struct settings *settings;
    const struct recipe *recipe;
    const struct dataset *data;
    struct exchange *exchange;
    struct network_traffic traffic;
    struct batch_shape shape;
    struct batch_order *order;
    struct network *network;
    struct values final;   /* copies, where what was got after the last begin is not it */
    uint64_t step;         /* begun last */
    uint64_t contribution; /* number of it in that step */
    uint64_t point;        /* steps from one point of the history to the next */
    uint64_t judgement;    /* steps from one measurement of the accuracy to the next; 0 = none but the last */
    uint64_t recorded;     /* step of the last point */
    uint64_t measured;     /* step of the last measurement */
    double loss;           /* sum since the last point of the history */
    uint64_t judged;       /* images in it */
    double shown_loss;     /* of the last point */
    uint64_t lost;         /* losses that were no number, since the last one that was */
    double accuracy;       /* last measured; negative = not yet */
    double begun;
    uint64_t begun_step;
    struct progress progress;
    struct result *result;
};

/* trainer_now -- seconds on a clock that never goes back */
static double trainer_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* trainer_shape -- how the settings cut the images into batches */
static struct batch_shape trainer_shape(const struct settings *settings, const struct dataset *data,
                                        unsigned parts)
{
    return (struct batch_shape){
        .seed = settings->recipe.seed,
        .images = data->train.count,
        .batch = settings->batch,
        .parts = parts,
        .uneven = settings->uneven,
    };
}

/* trainer_recipe -- what the settings ask for, with so many workers */
int trainer_recipe(const struct settings *settings, const struct dataset *data, unsigned workers,
                   struct recipe *recipe, struct fault *fault)
{
    if (recipe_check_workers(&settings->recipe, workers, settings->single, fault) < 0)
        return -1;
    unsigned parts = share_of(recipe_replicas(&settings->recipe, workers), workers, 0).parts;
    struct batch_shape shape = trainer_shape(settings, data, parts);
    uint64_t steps = batch_steps(&shape) * settings->epochs;
    if (steps == 0)
        return fault_set(fault, FAULT_USAGE,
                         "a global batch of %zu images in %u parts leaves a part without any: give "
                         "more --images or "
                         "a larger --batch",
                         shape.images < shape.batch * parts ? shape.images : shape.batch * parts, parts);
    *recipe = settings->recipe;
    /* Where each contribution makes a step, a pass over the images takes so many more. */
    recipe->steps = recipe_is_alone(recipe) ? steps * workers : steps;
    if (recipe->schedule.shape == SCHEDULE_LINEAR || recipe->schedule.shape == SCHEDULE_COSINE)
        recipe->schedule.steps = recipe->steps;
    return 0;
}

/* trainer_images -- that count in a step */
static double trainer_images(const struct trainer *trainer)
{
    unsigned replicas = recipe_replicas(trainer->recipe, trainer->exchange->workers);
    unsigned parts = trainer->shape.parts > UINT32_MAX ? UINT32_MAX : (unsigned)trainer->shape.parts;
    unsigned counted = trainer->settings->single || replicas > parts ? parts : replicas;
    return (double)trainer->data->train.count / (double)batch_steps(&trainer->shape) * (double)counted /
           (double)parts;
}

/* trainer_judgement -- steps between two measurements of the accuracy. Judging an image costs a
 * third of learning from it, so three times as many are learnt from in between: judging takes a
 * tenth of the time at most. Where an observer judges, nobody else does but at the end. */
static uint64_t trainer_judgement(const struct trainer *trainer)
{
    size_t global = trainer->shape.batch * trainer->shape.parts;
    uint64_t least = 3 * trainer->data->test.count / global;
    uint64_t even = trainer->recipe->steps / TRAINER_JUDGEMENTS;
    if (trainer->settings->evaluate_every > 0)
        return 0;
    /* Points and judgements fall together: an accuracy has its loss. */
    return ((even > least ? even : least) / trainer->point + 1) * trainer->point;
}

/* trainer_open -- everything the loop needs; trainer_close frees it, also after a failure */
static int trainer_open(struct trainer *trainer)
{
    trainer->shape = trainer_shape(trainer->settings, trainer->data, trainer->exchange->share.parts);
    trainer->point = trainer->recipe->steps / TRAINER_POINTS + 1;
    trainer->judgement = trainer_judgement(trainer);
    trainer->accuracy = -1.0;
    trainer->step = UINT64_MAX;
    trainer->traffic = exchange_traffic(trainer->exchange);
    size_t capacity = batch_capacity(&trainer->shape);
    trainer->order = batch_order_new(&trainer->shape);
    trainer->network = network_new(capacity > EVALUATION_BATCH ? capacity : EVALUATION_BATCH);
    if (trainer->order == NULL || trainer->network == NULL)
        return fault_set(trainer->exchange->fault, FAULT_PERMANENT,
                         "no memory for batches of %zu images: give a smaller --batch", capacity);
    return 0;
}

/* trainer_close -- free what trainer_open took */
static void trainer_close(struct trainer *trainer)
{
    batch_order_delete(&trainer->order);
    network_delete(&trainer->network);
    values_clear(&trainer->final);
}

/* trainer_is_sound -- whether every parameter of this step is a number; negative = the exchange has failed */
static int trainer_is_sound(const struct trainer *trainer)
{
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        const float *values;
        if (trainer->traffic.parameter(trainer->traffic.context, v, &values) < 0)
            return -1;
        for (uint64_t i = 0; i < network_variables()[v].elements; i++)
            if (!isfinite(values[i]))
                return 0;
    }
    return 1;
}

/* trainer_weigh_loss -- whether training can go on after this loss. One that is no number may come from a single
 * batch, and drop and skip are made for that; but parameters that are no numbers never become any again, and
 * where no loss is a number for long nothing is learnt. With fail the ps say whose gradient it was. */
static int trainer_weigh_loss(struct trainer *trainer, uint64_t step, double loss)
{
    enum recipe_non_finite policy = trainer->recipe->non_finite;
    int sound = 1;
    trainer->lost = isfinite(loss) ? 0 : trainer->lost + 1;
    if (trainer->lost == 0)
        return 0;
    if (policy == RECIPE_DROP || policy == RECIPE_SKIP)
        sound = trainer_is_sound(trainer);
    if (sound < 0)
        return -1;
    if (sound == 0 || policy == RECIPE_PROPAGATE)
        return fault_set(trainer->exchange->fault, FAULT_PERMANENT,
                         "the loss of step %" PRIu64 " is not a number any more%s: give a smaller --lr", step,
                         sound == 0 ? ", nor are the parameters, which can't recover" : "");
    if (trainer->lost >= (uint64_t)TRAINER_LOST_STEPS * trainer->exchange->share.count)
        return fault_set(trainer->exchange->fault, FAULT_PERMANENT,
                         "the loss of step %" PRIu64 " is not a number, nor were the %" PRIu64
                         " before it: give a smaller --lr",
                         step, trainer->lost - 1);
    return 0;
}

/* trainer_part -- compute part r of a step and hand in its gradients */
static int trainer_part(struct trainer *trainer, uint64_t step, unsigned r)
{
    struct batch_part part = batch_part_of(&trainer->shape, step, r);
    struct softmax_score score;
    for (size_t n = 0; n < part.count; n++) {
        size_t image = batch_order_at(trainer->order, part.epoch, part.first + n);
        network_load(trainer->network, n, dataset_image(&trainer->data->train, image),
                     dataset_label(&trainer->data->train, image));
    }
    if (network_forward(trainer->network, part.count, &trainer->traffic, &score) < 0 ||
        network_backward(trainer->network, part.count, &trainer->traffic) < 0)
        return -1;
    if (trainer_weigh_loss(trainer, step, score.loss) < 0)
        return -1;
    if (isfinite(score.loss)) {
        trainer->loss += score.loss;
        trainer->judged += part.count;
    }
    return trainer->exchange->operations->finish(trainer->exchange, part.weight);
}

/* trainer_crosses -- whether a step is the first at or behind a multiple of `every`, seen from the one before */
static bool trainer_crosses(uint64_t before, uint64_t step, uint64_t every)
{
    return every > 0 && step > before && step / every != before / every;
}

/* trainer_is_judged -- whether the accuracy is measured after so many steps: not shortly before the end, where
 * it is measured anyway */
static bool trainer_is_judged(const struct trainer *trainer, uint64_t step)
{
    return trainer_crosses(trainer->measured, step, trainer->judgement) && step < trainer->recipe->steps &&
           trainer->recipe->steps - step >= trainer->judgement / 2;
}

/* trainer_judge -- measure the accuracy, as the last that is known */
static int trainer_judge(struct trainer *trainer, const struct network_traffic *traffic)
{
    struct evaluation_result judged;
    if (evaluation_run(trainer->network, &trainer->data->test, trainer->data->test.count, traffic, &judged) <
        0)
        return -1;
    trainer->accuracy = judged.accuracy;
    trainer->result->test_accuracy = judged.accuracy;
    trainer->result->test_loss = judged.loss;
    return 0;
}

/* trainer_mark -- a point of the history; accuracy < 0 = it was not measured here */
static int trainer_mark(struct trainer *trainer, uint64_t step, double accuracy)
{
    if (trainer->judged > 0)
        trainer->shown_loss = trainer->loss / (double)trainer->judged;
    trainer->loss = 0.0;
    trainer->judged = 0;
    trainer->recorded = step;
    struct history_point point = {.step = step,
                                  .seconds = trainer_now() - trainer->begun,
                                  .loss = trainer->shown_loss,
                                  .accuracy = accuracy};
    if (history_add(&trainer->result->history, &point) < 0)
        return fault_set(trainer->exchange->fault, FAULT_PERMANENT, "no memory for the history");
    return 0;
}

/* trainer_show -- the progress line */
static void trainer_show(struct trainer *trainer, uint64_t step)
{
    double shown = trainer->judged > 0 ? trainer->loss / (double)trainer->judged : trainer->shown_loss;
    progress_show(&trainer->progress, step, shown, trainer->accuracy, trainer_images(trainer), trainer_now());
}

/* trainer_record -- what is to be noted at the begin of a step; rank 0 only */
static int trainer_record(struct trainer *trainer, uint64_t step)
{
    if (trainer_crosses(trainer->recorded, step, trainer->point)) {
        double accuracy = -1.0;
        if (trainer_is_judged(trainer, step)) {
            if (trainer_judge(trainer, &trainer->traffic) < 0)
                return -1;
            accuracy = trainer->accuracy;
            trainer->measured = step;
        }
        if (trainer_mark(trainer, step, accuracy) < 0)
            return -1;
    }
    trainer_show(trainer, step);
    return 0;
}

/* trainer_start -- at the first begin */
static void trainer_start(struct trainer *trainer, uint64_t step)
{
    bool shown = trainer->exchange->rank == 0;
    trainer->begun = trainer_now();
    trainer->begun_step = trainer->recorded = trainer->measured = step;
    progress_start(&trainer->progress, shown ? trainer->settings->progress : PROGRESS_NONE, step,
                   trainer->recipe->steps, trainer->begun);
}

/* trainer_go_back -- what was measured behind a step that is begun once more is void; batches follow from the step anyway */
static void trainer_go_back(struct trainer *trainer, uint64_t step)
{
    char line[80];
    history_cut(&trainer->result->history, step);
    if (trainer->recorded > step)
        trainer->recorded = step;
    if (trainer->measured > step)
        trainer->measured = step;
    trainer->loss = 0.0;
    trainer->judged = trainer->lost = 0;
    snprintf(line, sizeof line, "rewound: goes back from step %" PRIu64 " to step %" PRIu64, trainer->step,
             step);
    progress_note(trainer->settings->progress, line);
}

/* trainer_begin -- the next contribution: of which step, and which of that step */
static int trainer_begin(struct trainer *trainer)
{
    struct exchange_step begun;
    bool first = trainer->step == UINT64_MAX;
    if (trainer->exchange->operations->begin(trainer->exchange, &begun) < 0)
        return -1;
    if (begun.rewound)
        trainer_go_back(trainer, begun.step);
    trainer->contribution = begun.step == trainer->step && !begun.rewound ? trainer->contribution + 1 : 0;
    trainer->step = begun.step;
    if (begun.staleness > trainer->result->staleness_max)
        trainer->result->staleness_max = begun.staleness;
    if (first)
        trainer_start(trainer, begun.step);
    return 0;
}

/* trainer_steps -- all steps, up to a begin that gives the step after the last, or a later one */
static int trainer_steps(struct trainer *trainer)
{
    const struct exchange *exchange = trainer->exchange;
    for (;;) {
        if (trainer_begin(trainer) < 0)
            return -1;
        if (trainer->step >= trainer->recipe->steps)
            return 0;
        if (trainer->contribution == 0) {
            if (exchange->rank == 0 && trainer_record(trainer, trainer->step) < 0)
                return -1;
            straggle_sleep(&trainer->settings->straggle, trainer->recipe->seed, exchange->rank,
                           trainer->step);
        }
        if (interrupt_signal() != 0)
            return -1; /* trainer_run says why */
        if (trainer_part(trainer, trainer->step, share_part(&exchange->share, trainer->contribution)) < 0)
            return -1;
    }
}

/* trainer_final -- where the final parameters are: as a rule what the last begin gives. Where others were still
 * contributing to later steps, a copy is made, now that they are done. */
static int trainer_final(struct trainer *trainer, struct network_traffic *traffic, uint64_t *step)
{
    const struct exchange *exchange = trainer->exchange;
    bool alone = recipe_is_alone(trainer->recipe);
    *traffic = trainer->traffic;
    *step = trainer->step;
    bool copies = alone || trainer->recipe->average_decay > 0.0;
    if (copies && trainer->final.of[0] == NULL && !values_take(&trainer->final))
        return fault_set(exchange->fault, FAULT_PERMANENT, "no memory for the final parameters");
    if (!alone)
        return 0;
    *traffic = values_traffic(&trainer->final);
    return exchange->operations->copy(trainer->exchange, EXCHANGE_PARAMETERS, &trainer->final, step);
}

/* trainer_average -- how good the averages are */
static int trainer_average(struct trainer *trainer)
{
    struct evaluation_result judged;
    struct network_traffic traffic = values_traffic(&trainer->final);
    uint64_t step;
    trainer->result->test_accuracy_average = -1.0;
    if (trainer->recipe->average_decay <= 0.0)
        return 0;
    if (trainer->exchange->operations->copy(trainer->exchange, EXCHANGE_AVERAGES, &trainer->final, &step) <
            0 ||
        evaluation_run(trainer->network, &trainer->data->test, trainer->data->test.count, &traffic, &judged) <
            0)
        return -1;
    trainer->result->test_accuracy_average = judged.accuracy;
    return 0;
}

/* trainer_counts -- what became of all contributions */
static int trainer_counts(struct trainer *trainer)
{
    struct exchange *exchange = trainer->exchange;
    struct exchange_counts *counts = calloc(exchange->workers, sizeof *counts);
    free(trainer->result->counts); /* of an end that was none: the job went back */
    trainer->result->counts = counts;
    if (counts == NULL)
        return fault_set(exchange->fault, FAULT_PERMANENT, "no memory for the counts");
    for (unsigned w = 0; w < exchange->workers; w++)
        if (exchange->operations->counts(exchange, w, &counts[w]) < 0)
            return -1;
    return 0;
}

/* trainer_sum -- loss on training images, and the digest, of the final parameters */
static int trainer_sum(struct trainer *trainer, const struct network_traffic *traffic)
{
    struct result *result = trainer->result;
    const float *values[NETWORK_VARIABLES];
    struct evaluation_result loss;
    size_t count = trainer->data->train.count < TRAINER_LOSS_IMAGES ? trainer->data->train.count
                                                                    : (size_t)TRAINER_LOSS_IMAGES;
    if (evaluation_run(trainer->network, &trainer->data->train, count, traffic, &loss) < 0)
        return -1;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        if (traffic->parameter(traffic->context, v, &values[v]) < 0)
            return -1;
    digest_of(values, trainer->recipe->dtype, result->params_sha256);
    result->final_loss = loss.loss;
    return 0;
}

/* trainer_describe -- what was run, and how fast */
static void trainer_describe(struct trainer *trainer, uint64_t step, double seconds)
{
    struct result *result = trainer->result;
    const struct exchange *exchange = trainer->exchange;
    double images = (double)(step - trainer->begun_step) * trainer_images(trainer);
    result->transport = exchange->transport;
    result->workers = exchange->workers;
    result->ps = exchange->ps;
    result->parts = exchange->share.parts;
    result->replicas = trainer->settings->single ? exchange->share.parts
                                                 : recipe_replicas(trainer->recipe, exchange->workers);
    result->images = trainer->data->train.count;
    result->global_step = step;
    result->seconds = seconds;
    result->images_per_second = seconds > 0.0 ? images / seconds : 0.0;
}

/* trainer_conclude -- what is said of the final parameters; rank 0 only */
static int trainer_conclude(struct trainer *trainer)
{
    struct network_traffic traffic;
    uint64_t step;
    if (trainer_final(trainer, &traffic, &step) < 0 || trainer_judge(trainer, &traffic) < 0)
        return -1;
    if (step > trainer->begun_step && trainer_mark(trainer, step, trainer->accuracy) < 0)
        return -1;
    trainer_show(trainer, step);
    trainer_describe(trainer, step, trainer_now() - trainer->begun);
    if (trainer_sum(trainer, &traffic) < 0 || trainer_average(trainer) < 0)
        return -1;
    return trainer_counts(trainer);
}

/* trainer_end -- all workers are done with their steps: say what has come of them, and leave */
static int trainer_end(struct trainer *trainer)
{
    struct exchange *exchange = trainer->exchange;
    if (exchange->operations->settle(exchange) < 0 || (exchange->rank == 0 && trainer_conclude(trainer) < 0))
        return -1;
    progress_end(&trainer->progress);
    return exchange->operations->leave(exchange);
}

/* trainer_run -- train to the end */
int trainer_run(const struct settings *settings, const struct recipe *recipe, const struct dataset *data,
                struct exchange *exchange, struct result *result)
{
    struct trainer trainer = {
        .settings = settings,
        .recipe = recipe,
        .data = data,
        .exchange = exchange,
        .result = result,
    };
    result->blas_threads = matrix_threads();
    int rc = trainer_open(&trainer);
    if (rc == 0)
        do
            rc = trainer_steps(&trainer) == 0 ? trainer_end(&trainer) : -1;
        while (rc < 0 && exchange->back && interrupt_signal() == 0);
    progress_end(&trainer.progress);
    if (rc < 0 && interrupt_signal() != 0)
        fault_set(exchange->fault, 128 + interrupt_signal(),
                  "ended by signal %d in step %" PRIu64 " of %" PRIu64, interrupt_signal(),
                  trainer.step == UINT64_MAX ? 0 : trainer.step, recipe->steps);
    trainer_close(&trainer);
    return rc;
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "worker/examples/fashion/batch.h"
#include "worker/examples/fashion/evaluation.h"
#include "worker/examples/fashion/interrupt.h"
#include "worker/examples/fashion/matrix.h"
#include "worker/examples/fashion/progress.h"

enum {
    TRAINER_POINTS = 200,       /* of the loss, in a whole run */
    TRAINER_JUDGEMENTS = 16,    /* of the accuracy, at most, in a whole run */
    TRAINER_LOSS_IMAGES = 10000 /* that the final loss is taken over */
};

struct trainer {
    const struct settings *settings;
    const struct dataset *data;
    struct exchange *exchange;
    struct network_traffic traffic;
    struct batch_shape shape;
    struct batch_order *order;
    struct network *network;
    uint64_t steps;     /* in the whole run */
    uint64_t step;      /* begun last */
    uint64_t point;     /* steps from one point of the history to the next */
    uint64_t judgement; /* steps from one measurement of the accuracy to the next */
    double loss;        /* sum since the last point of the history */
    uint64_t judged;    /* images in it */
    double shown_loss;  /* of the last point */
    double accuracy;    /* last measured; negative = not yet */
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
        .seed = settings->seed,
        .images = data->train.count,
        .batch = settings->batch,
        .parts = parts,
        .uneven = settings->uneven,
    };
}

/* trainer_recipe -- what the settings ask for, with so many parts per step */
int trainer_recipe(const struct settings *settings, const struct dataset *data, unsigned parts,
                   struct exchange_recipe *recipe, struct fault *fault)
{
    struct batch_shape shape = trainer_shape(settings, data, parts);
    uint64_t steps = batch_steps(&shape);
    if (steps == 0)
        return fault_set(fault, FAULT_USAGE,
                         "a global batch of %zu images in %u parts leaves a part without any: give "
                         "more --images or "
                         "a larger --batch",
                         shape.images < shape.batch * parts ? shape.images : shape.batch * parts, parts);
    *recipe = (struct exchange_recipe){
        .rule = settings->rule,
        .momentum = settings->momentum,
        .schedule = {.rate = settings->rate, .steps = settings->constant ? 0 : steps * settings->epochs},
        .seed = settings->seed,
    };
    return 0;
}

/* trainer_judgement -- steps between two measurements of the accuracy. Judging an image costs a
 * third of learning from it, so three times as many are learnt from in between: judging takes a
 * tenth of the time at most. */
static uint64_t trainer_judgement(const struct trainer *trainer)
{
    size_t global = trainer->shape.batch * trainer->shape.parts;
    uint64_t least = 3 * trainer->data->test.count / global;
    uint64_t even = trainer->steps / TRAINER_JUDGEMENTS;
    /* Points and judgements fall together: an accuracy has its loss. */
    return ((even > least ? even : least) / trainer->point + 1) * trainer->point;
}

/* trainer_open -- everything the loop needs; trainer_close frees it, also after a failure */
static int trainer_open(struct trainer *trainer)
{
    trainer->shape = trainer_shape(trainer->settings, trainer->data, trainer->exchange->parts);
    trainer->steps = batch_steps(&trainer->shape) * trainer->settings->epochs;
    trainer->point = trainer->steps / TRAINER_POINTS + 1;
    trainer->judgement = trainer_judgement(trainer);
    trainer->accuracy = -1.0;
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
    if (!isfinite(score.loss))
        return fault_set(trainer->exchange->fault, FAULT_PERMANENT,
                         "the loss of step %" PRIu64 " is not a number any more: give a smaller --lr", step);
    trainer->loss += score.loss;
    trainer->judged += part.count;
    return trainer->exchange->operations->finish(trainer->exchange, part.weight);
}

/* trainer_is_judged -- whether the accuracy is measured after so many steps: at the end, and not
 * shortly before it */
static bool trainer_is_judged(const struct trainer *trainer, uint64_t step)
{
    if (step == trainer->steps)
        return true;
    return step % trainer->judgement == 0 && trainer->steps - step >= trainer->judgement / 2;
}

/* trainer_record -- a point of the history after so many steps, and the progress line; rank 0 only
 */
static int trainer_record(struct trainer *trainer, uint64_t step)
{
    double images = (double)(trainer->shape.batch * trainer->shape.parts);
    if (step > trainer->begun_step && (step % trainer->point == 0 || step == trainer->steps)) {
        struct history_point point = {.step = step, .accuracy = -1.0};
        if (trainer_is_judged(trainer, step)) {
            struct evaluation_result judged;
            if (evaluation_run(trainer->network, &trainer->data->test, trainer->data->test.count,
                               &trainer->traffic, &judged) < 0)
                return -1;
            trainer->accuracy = point.accuracy = judged.accuracy;
            trainer->result->test_accuracy = judged.accuracy;
            trainer->result->test_loss = judged.loss;
        }
        if (trainer->judged > 0)
            trainer->shown_loss = trainer->loss / (double)trainer->judged;
        trainer->loss = 0.0;
        trainer->judged = 0;
        point.loss = trainer->shown_loss;
        point.seconds = trainer_now() - trainer->begun;
        if (history_add(&trainer->result->history, &point) < 0)
            return fault_set(trainer->exchange->fault, FAULT_PERMANENT, "no memory for the history");
    }
    double shown = trainer->judged > 0 ? trainer->loss / (double)trainer->judged : trainer->shown_loss;
    progress_show(&trainer->progress, step, shown, trainer->accuracy, images, trainer_now());
    return 0;
}

/* trainer_steps -- all steps, up to a begin that gives the step after the last; begin's parameters
 * are the final ones */
static int trainer_steps(struct trainer *trainer)
{
    struct exchange *exchange = trainer->exchange;
    uint64_t step;
    for (bool first = true;; first = false) {
        if (exchange->operations->begin(exchange, &step) < 0)
            return -1;
        trainer->step = step;
        if (first) {
            trainer->begun = trainer_now();
            trainer->begun_step = step;
            progress_start(&trainer->progress,
                           exchange->rank == 0 ? trainer->settings->progress : PROGRESS_NONE, step,
                           trainer->steps, trainer->begun);
        }
        if (exchange->rank == 0 && trainer_record(trainer, step) < 0)
            return -1;
        if (step >= trainer->steps)
            return 0;
        if (interrupt_signal() != 0)
            return -1; /* trainer_run says why */
        for (unsigned i = 0; i < exchange->count; i++)
            if (trainer_part(trainer, step, exchange->first + i) < 0)
                return -1;
    }
}

/* trainer_conclude -- what is said of the final parameters; rank 0 only */
static int trainer_conclude(struct trainer *trainer, double seconds)
{
    struct result *result = trainer->result;
    const struct exchange *exchange = trainer->exchange;
    const float *values[NETWORK_VARIABLES];
    struct evaluation_result loss;
    size_t count = trainer->data->train.count < TRAINER_LOSS_IMAGES ? trainer->data->train.count
                                                                    : (size_t)TRAINER_LOSS_IMAGES;
    if (evaluation_run(trainer->network, &trainer->data->train, count, &trainer->traffic, &loss) < 0)
        return -1;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        if (trainer->traffic.parameter(trainer->traffic.context, v, &values[v]) < 0)
            return -1;
    digest_of(values, result->params_sha256);
    double images = (double)(trainer->steps - trainer->begun_step) * (double)trainer->data->train.count /
                    (double)batch_steps(&trainer->shape);
    result->transport = exchange->transport;
    result->workers = exchange->workers;
    result->ps = exchange->ps;
    result->parts = exchange->parts;
    result->images = trainer->data->train.count;
    result->global_step = trainer->steps;
    result->final_loss = loss.loss;
    result->seconds = seconds;
    result->images_per_second = seconds > 0.0 ? images / seconds : 0.0;
    return 0;
}

/* trainer_run -- train to the end */
int trainer_run(const struct settings *settings, const struct dataset *data, struct exchange *exchange,
                struct result *result)
{
    struct trainer trainer = {
        .settings = settings,
        .data = data,
        .exchange = exchange,
        .result = result,
    };
    result->blas_threads = matrix_threads();
    int rc = trainer_open(&trainer);
    if (rc == 0)
        rc = trainer_steps(&trainer);
    progress_end(&trainer.progress);
    if (rc == 0 && exchange->rank == 0)
        rc = trainer_conclude(&trainer, trainer_now() - trainer.begun);
    if (rc == 0)
        rc = exchange->operations->leave(exchange);
    if (rc < 0 && interrupt_signal() != 0)
        fault_set(exchange->fault, 128 + interrupt_signal(),
                  "ended by signal %d in step %" PRIu64 " of %" PRIu64, interrupt_signal(), trainer.step,
                  trainer.steps);
    trainer_close(&trainer);
    return rc;
}

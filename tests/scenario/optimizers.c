/* SPDX-License-Identifier: BSD-3-Clause */
/* optimizers -- each by name, two steps against numbers worked out by hand: the variable starts at 1, the rate is 0.5, the gradient 2. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "tests/scenario/scenario.h"

/* What two steps must come to; slots that there are not: NAN. */
struct optimizers_case {
    const char *keys;
    double value[2];
    double slots[2][2]; /* [slot][step] */
};

/* optimizers_two_steps -- one worker, a dense variable, an f64 one, and a row of a sparse one: the same numbers. */
static int optimizers_two_steps(struct stage *stage, const struct optimizers_case *one)
{
    const struct cluster_job job = {
        .shards = 2,
        .keys = one->keys,
        .variables = {{.name = "dense", .initial_count = 1, .initial = {1}},
                      {.name = "wide", .dtype = STEPGATE_F64, .initial_count = 1, .initial = {1}},
                      {.name = "table",
                       .kind = STEPGATE_SPARSE,
                       .dims = {3, 1},
                       .options = "rows_max=2",
                       .initial_count = 1,
                       .initial = {1}}}};
    struct cluster *c;
    double untouched[2];

    TRY(stage_open(stage, &job, &c));
    for (uint32_t v = 0; v < 2; v++)
        GRADIENT(c, 0, v, 2);
    cluster_rows(c, 0, 2, INDICES(1), VALUES(2));
    for (unsigned s = 0; s < 2; s++)
        untouched[s] = cluster_slot(c, 2, s, 0);
    for (uint64_t step = 0; step < 2; step++) {
        RUN(c, 0);
        GS(c, step + 1);
        for (uint32_t v = 0; v < 3; v++) {
            NEAR(c, v, v == 2 ? 1 : 0, one->value[step]);
            for (unsigned s = 0; s < 2; s++)
                SLOT(c, v, s, v == 2 ? 1 : 0, one->slots[s][step]);
        }
        EXACT(c, 2, 0, 1);
        EXACT(c, 2, 2, 1);
        for (unsigned s = 0; s < 2; s++) { /* rows that were not pushed are left as they are */
            SLOT(c, 2, s, 0, untouched[s]);
            SLOT(c, 2, s, 2, untouched[s]);
        }
    }
    return 0;
}

#define NONE                                                                                                 \
    {                                                                                                        \
        (double)NAN, (double)NAN                                                                             \
    }

/* optimizers_sgd -- v -= r g. */
static int optimizers_sgd(struct stage *stage)
{
    const struct optimizers_case tf = {"optimizer=sgd learning_rate=0.5", {0, -1}, {NONE, NONE}};

    return optimizers_two_steps(stage, &tf);
}

/* optimizers_momentum -- a = m a + g; v -= r a. */
static int optimizers_momentum(struct stage *stage)
{
    const struct optimizers_case tf = {
        "optimizer=momentum momentum=0.5 learning_rate=0.5", {0, -1.5}, {{2, 3}, NONE}};

    return optimizers_two_steps(stage, &tf);
}

/* optimizers_nesterov -- a = m a + g; v -= r g + m a r; PyTorch words it v -= r (g + m a). */
static int optimizers_nesterov(struct stage *stage)
{
    const struct optimizers_case tf = {
        "optimizer=nesterov momentum=0.5 learning_rate=0.5", {1 - 1.5, -0.5 - 1.75}, {{2, 3}, NONE}};
    const struct optimizers_case torch = {"optimizer=nesterov momentum=0.5 learning_rate=0.5 formula=torch",
                                          {1 - 1.5, -0.5 - 1.75},
                                          {{2, 3}, NONE}};

    TRY(optimizers_two_steps(stage, &tf));
    return optimizers_two_steps(stage, &torch);
}

/* optimizers_adagrad -- a starts at 0.1; PyTorch's at 0, with epsilon outside of the root. */
static int optimizers_adagrad(struct stage *stage)
{
    const double first = 1 - 0.5 * 2 / sqrt(4.1), torch_first = 1 - 0.5 * (2 / (2 + 1.0));
    const struct optimizers_case tf = {
        "optimizer=adagrad learning_rate=0.5", {first, first - 0.5 * 2 / sqrt(8.1)}, {{4.1, 8.1}, NONE}};
    const struct optimizers_case torch = {"optimizer=adagrad learning_rate=0.5 formula=torch epsilon=1",
                                          {torch_first, torch_first - 0.5 * (2 / (sqrt(8) + 1))},
                                          {{4, 8}, NONE}};

    TRY(optimizers_two_steps(stage, &tf));
    return optimizers_two_steps(stage, &torch);
}

/* optimizers_rmsprop -- the mean square starts at ones, the momentum at zero, epsilon is inside of the root; PyTorch's differ in all that. */
static int optimizers_rmsprop(struct stage *stage)
{
    const double mom = 0.5 * 2 / sqrt(1.75 + 1), mom2 = 0.5 * mom + 0.5 * 2 / sqrt(2.3125 + 1);
    const struct optimizers_case tf = {"optimizer=rmsprop rho=0.75 momentum=0.5 epsilon=1 learning_rate=0.5",
                                       {1 - mom, 1 - mom - mom2},
                                       {{1.75, 2.3125}, {mom, mom2}}};
    const double torch_mom2 = 0.5 * 1 + 2 / (sqrt(1.75) + 1);
    const struct optimizers_case torch = {
        "optimizer=rmsprop formula=torch rho=0.75 momentum=0.5 epsilon=1 learning_rate=0.5",
        {0.5, 0.5 - 0.5 * torch_mom2},
        {{1, 1.75}, {1, torch_mom2}}};

    TRY(optimizers_two_steps(stage, &tf));
    return optimizers_two_steps(stage, &torch);
}

/* optimizers_adam -- lr_t = lr sqrt(1 - b2^t) / (1 - b1^t), epsilon outside of the root; PyTorch corrects root and mean apart. */
static int optimizers_adam(struct stage *stage)
{
    const double second = 1.5 * (0.5 * sqrt(1 - 0.5625) / 0.75) / (sqrt(1.75) + 1);
    const struct optimizers_case tf = {"optimizer=adam beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5",
                                       {0.75, 0.75 - second},
                                       {{1, 1.5}, {1, 1.75}}};
    const double first = 0.5 / 0.5 * (1 / (1 / 0.5 + 1)),
                 torch_second = 0.5 / 0.75 * (1.5 / (sqrt(1.75) / sqrt(1 - 0.5625) + 1));
    const struct optimizers_case torch = {
        "optimizer=adam formula=torch beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5",
        {1 - first, 1 - first - torch_second},
        {{1, 1.5}, {1, 1.75}}};

    TRY(optimizers_two_steps(stage, &tf));
    return optimizers_two_steps(stage, &torch);
}

/* optimizers_adamw -- the decay apart from the gradient: v -= lr wd v, then adam. */
static int optimizers_adamw(struct stage *stage)
{
    const double value = 0.75 - 0.25, second = 1.5 * (0.5 * sqrt(1 - 0.5625) / 0.75) / (sqrt(1.75) + 1);
    const struct optimizers_case tf = {
        "optimizer=adamw weight_decay=0.5 beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5",
        {value, value - 0.25 * value - second},
        {{1, 1.5}, {1, 1.75}}};
    const double first = 0.75 - 0.5 / 0.5 * (1 / (1 / 0.5 + 1)),
                 torch_second = 0.5 / 0.75 * (1.5 / (sqrt(1.75) / sqrt(1 - 0.5625) + 1));
    const struct optimizers_case torch = {
        "optimizer=adamw formula=torch weight_decay=0.5 beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5",
        {first, first - 0.25 * first - torch_second},
        {{1, 1.5}, {1, 1.75}}};

    TRY(optimizers_two_steps(stage, &tf));
    return optimizers_two_steps(stage, &torch);
}

/* optimizers_l2 -- is added to the gradient, and goes through the formula with it: not the same as the decoupled decay. */
static int optimizers_l2(struct stage *stage)
{
    const double a1 = 2 + 0.5 * 1, v1 = 1 - 0.5 * a1, a2 = 0.5 * a1 + (2 + 0.5 * v1), v2 = v1 - 0.5 * a2;
    const struct optimizers_case tf = {
        "optimizer=momentum momentum=0.5 learning_rate=0.5 l2_decay=0.5", {v1, v2}, {{a1, a2}, NONE}};

    return optimizers_two_steps(stage, &tf);
}

/* optimizers_recipe -- RMSProp 0.9 / momentum 0.9 / epsilon 1.0, 0.045 * 0.94^floor(gs / 2), averages with 0.9999 driven by gs. */
static int optimizers_recipe(struct stage *stage)
{
    static const struct cluster_job job = {
        .workers = 2,
        .keys = "optimizer=rmsprop rho=0.9 momentum=0.9 epsilon=1 learning_rate=0.045 schedule=exponential "
                "learning_rate_factor=0.94 learning_rate_steps=2 staircase=yes average_decay=0.9999 "
                "average_by_step=yes",
        .variables = {{.name = "v", .initial_count = 1, .initial = {1}}}};
    double v = 1, ms = 1, mom = 0, average = 1;
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    for (int gs = 0; gs < 5; gs++) {
        double g = 3 - gs, rate = 0.045 * pow(0.94, gs / 2), n = gs + 1;
        GRADIENT(c, 0, 0, g - 1);
        GRADIENT(c, 1, 0, g + 1);
        RUN(c, 1, 0);
        ms = 0.9 * ms + 0.1 * g * g;
        mom = 0.9 * mom + rate * g / sqrt(ms + 1);
        v -= mom;
        average -= (1 - fmin(0.9999, (1 + n) / (10 + n))) * (average - v);
        NEAR(c, 0, 0, v);
        SLOT(c, 0, 0, 0, ms);
        SLOT(c, 0, 1, 0, mom);
        AVERAGE(c, 0, 0, average);
    }
    return 0;
}

/* optimizers_rates -- the rate of each of six steps, which a gradient of 1 shows. */
static int optimizers_rates(struct stage *stage, const char *keys, const double rates[6])
{
    const struct cluster_job job = {.keys = keys, .variables = {{.name = "v", .dtype = STEPGATE_F64}}};
    double v = 0;
    struct cluster *c;

    TRY(stage_open(stage, &job, &c));
    GRADIENT(c, 0, 0, 1);
    for (int k = 0; k < 6; k++) {
        RUN(c, 0);
        v -= rates[k];
        NEAR(c, 0, 0, v);
    }
    return stage_close(stage);
}

/* optimizers_schedules -- constant, linear, exponential with and without stairs, cosine, and a warm-up that shifts none of them. */
static int optimizers_schedules(struct stage *stage)
{
    const double root = sqrt(0.5), half = sqrt(0.125);

    TRY(optimizers_rates(stage, "learning_rate=4", (const double[]){4, 4, 4, 4, 4, 4}));
    TRY(optimizers_rates(stage, "learning_rate=4 learning_rate_steps=4 learning_rate_end=2",
                         (const double[]){4, 3.5, 3, 2.5, 2, 2}));
    TRY(optimizers_rates(
        stage, "learning_rate=4 schedule=exponential learning_rate_factor=0.5 learning_rate_steps=2",
        (const double[]){4, 4 * root, 2, 4 * half, 1, 2 * half}));
    TRY(optimizers_rates(
        stage,
        "learning_rate=4 schedule=exponential learning_rate_factor=0.5 learning_rate_steps=2 staircase=yes",
        (const double[]){4, 4, 2, 2, 1, 1}));
    TRY(optimizers_rates(stage, "learning_rate=4 schedule=cosine learning_rate_steps=4",
                         (const double[]){4, 2 + 2 * root, 2, 2 - 2 * root, 0, 0}));
    return optimizers_rates(
        stage, "learning_rate=4 schedule=linear learning_rate_steps=4 learning_rate_end=2 warmup_steps=2",
        (const double[]){2, 4, 3, 2.5, 2, 2});
}

/* optimizers_skipped -- a step that is skipped is no update: adam corrects the next one as the first. */
static int optimizers_skipped(struct stage *stage)
{
    static const char *const keys[] = {
        "optimizer=adam non_finite=skip beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5",
        "optimizer=adam formula=torch non_finite=skip beta1=0.5 beta2=0.75 epsilon=1 learning_rate=0.5"};
    const double value[] = {0.75, 1 - 1 / 3.0};
    struct cluster *c;

    for (size_t f = 0; f < 2; f++) {
        const struct cluster_job job = {.keys = keys[f],
                                        .variables = {{.name = "v", .initial_count = 1, .initial = {1}}}};
        TRY(stage_open(stage, &job, &c));
        GRADIENT(c, 0, 0, (double)NAN);
        RUN(c, 0);
        VERDICT(c, 0, SKIPPED, 0);
        EXACT(c, 0, 0, 1);
        GRADIENT(c, 0, 0, 2);
        RUN(c, 0);
        GS(c, 2);
        NEAR(c, 0, 0, value[f]);
    }
    return 0;
}

/* optimizers_unused -- what the chosen optimizer does not use is refused: nobody trains with a number that does not count. */
static int optimizers_unused(struct stage *stage)
{
    static const struct cluster_job momentum = {.keys = "optimizer=sgd momentum=0.5",
                                                .variables = {{.name = "v"}}};
    static const struct cluster_job decay = {.keys = "optimizer=adam weight_decay=0.5",
                                             .variables = {{.name = "v"}}};
    static const struct cluster_job schedule = {.keys = "schedule=cosine", .variables = {{.name = "v"}}};
    static const struct cluster_job unknown = {.keys = "optimizer=lion", .variables = {{.name = "v"}}};

    TRY(cluster_refused(stage->ground, &momentum, STEPGATE_EINVAL, "momentum is set, but"));
    TRY(cluster_refused(stage->ground, &decay, STEPGATE_EINVAL, "weight_decay is set, but"));
    TRY(cluster_refused(stage->ground, &schedule, STEPGATE_EINVAL, "needs learning_rate_steps"));
    return cluster_refused(stage->ground, &unknown, STEPGATE_EINVAL, "optimizer");
}

const struct scenario scenario_optimizers[] = {
    {"optimizer_sgd", optimizers_sgd, false},
    {"optimizer_momentum", optimizers_momentum, false},
    {"optimizer_nesterov", optimizers_nesterov, false},
    {"optimizer_adagrad", optimizers_adagrad, false},
    {"optimizer_rmsprop", optimizers_rmsprop, false},
    {"optimizer_adam", optimizers_adam, false},
    {"optimizer_adamw", optimizers_adamw, false},
    {"optimizer_l2_decay_is_part_of_the_gradient", optimizers_l2, false},
    {"optimizer_reference_recipe", optimizers_recipe, false},
    {"optimizer_schedules", optimizers_schedules, false},
    {"optimizer_a_skipped_step_is_no_update", optimizers_skipped, false},
    {"optimizer_what_nothing_uses_is_refused", optimizers_unused, false},
    {NULL, NULL, false}};

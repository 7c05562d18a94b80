/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-fashion -- trains a convolutional network on Fashion-MNIST: as a worker of a job, or
 * alone. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/examples/fashion/exchange_own.h"
#include "worker/examples/fashion/exchange_stepgate.h"
#include "worker/examples/fashion/interrupt.h"
#include "worker/examples/fashion/observer.h"
#include "worker/examples/fashion/picture.h"
#include "worker/examples/fashion/reference.h"
#include "worker/examples/fashion/trainer.h"

/* fashion_counts -- one of the three counts of all workers */
static void fashion_counts(const char *name, const struct result *result, size_t offset)
{
    printf("%s", name);
    for (unsigned w = 0; w < result->workers; w++)
        printf(" %" PRIu64, *(const uint64_t *)(const void *)((const char *)&result->counts[w] + offset));
}

/* fashion_contributions -- a line of what became of them; where all of them counted there is nothing to say */
static void fashion_contributions(const struct result *result, const struct recipe *recipe)
{
    uint64_t lost = 0;
    for (unsigned w = 0; w < result->workers; w++)
        lost += result->counts[w].stale + result->counts[w].non_finite;
    if (lost == 0 && recipe->update == RECIPE_STRICT)
        return;
    fashion_counts("contributions of each worker: accepted", result,
                   offsetof(struct exchange_counts, accepted));
    fashion_counts(", stale", result, offsetof(struct exchange_counts, stale));
    fashion_counts(", not finite", result, offsetof(struct exchange_counts, non_finite));
    if (recipe_is_alone(recipe))
        printf(", staleness of worker 0 at most %" PRIu64, result->staleness_max);
    printf("\n");
}

/* fashion_report -- the last words of rank 0 */
static int fashion_report(const struct settings *settings, const struct recipe *recipe,
                          const struct result *result, struct fault *fault)
{
    char average[40] = "";
    if (settings->json != NULL && result_write(settings->json, result, settings, recipe, fault) < 0)
        return -1;
    fashion_contributions(result, recipe);
    if (result->test_accuracy_average >= 0.0)
        snprintf(average, sizeof average, " (average %.4f)", result->test_accuracy_average);
    printf("test accuracy %.4f%s, test loss %.4f, training loss %.4f, %.1f s, %.0f images/s, params_sha256 "
           "%s\n",
           result->test_accuracy, average, result->test_loss, result->final_loss, result->seconds,
           result->images_per_second, result->params_sha256);
    if (!isfinite(result->final_loss)) /* the last step may have been the one that spoiled everything */
        return fault_set(fault, FAULT_PERMANENT,
                         "the loss of the final parameters is not a number: give a smaller --lr");
    return 0;
}

/* fashion_announce -- the first words of rank 0 */
static void fashion_announce(const struct recipe *recipe, const struct dataset *data,
                             const struct exchange *exchange)
{
    char update[80] = "", resumed[64] = "";
    unsigned workers = exchange->workers, replicas = recipe_replicas(recipe, workers);
    if (recipe_is_alone(recipe))
        snprintf(update, sizeof update, ", each gradient alone (%s)", recipe_update_name(recipe->update));
    else if (recipe->update == RECIPE_TF || replicas < workers)
        snprintf(update, sizeof update, ", %u gradients a step (%s)", replicas,
                 recipe_update_name(recipe->update));
    if (exchange->step > 0)
        snprintf(resumed, sizeof resumed, ", %s: step %" PRIu64 " of %" PRIu64,
                 exchange->joins ? "back among the others" : "from a checkpoint", exchange->step,
                 recipe->steps);
    printf("training on %zu images, transport %s, %u worker%s, %u ps, one BLAS thread each, optimizer "
           "%s%s%s%s\n",
           data->train.count, exchange->transport, workers, workers == 1 ? "" : "s", exchange->ps,
           recipe_optimizer_name(recipe->optimizer),
           recipe->formula == RECIPE_FORMULA_TORCH ? " of torch" : "", update, resumed);
    fflush(stdout);
}

/* fashion_exchange -- the one that the settings ask for; NULL with the fault set. link is NULL when alone. */
static struct exchange *fashion_exchange(const struct settings *settings, const struct recipe *recipe,
                                         struct exchange_link *link, struct fault *fault)
{
    unsigned parts = (unsigned)settings->parts;
    if (link == NULL)
        return reference_new(recipe, share_of(recipe_replicas(recipe, parts), parts, 0).parts, fault);
    if (recipe->optimizer == RECIPE_NONE && exchange_link_rewinds(link)) {
        fault_set(fault, FAULT_USAGE,
                  "with --optimizer none the parameters are the trainer's own, which no checkpoint has: give "
                  "--lost-ps fail");
        return NULL;
    }
    struct exchange *exchange = exchange_stepgate_new(link, recipe, fault);
    if (exchange == NULL || recipe->optimizer != RECIPE_NONE)
        return exchange;
    struct exchange *own = exchange_own_new(exchange, &recipe->schedule);
    if (own == NULL)
        exchange->operations->close(exchange);
    return own;
}

/* fashion_observe -- have somebody judge beside the training, if that is asked for */
static int fashion_observe(const struct settings *settings, const struct recipe *recipe,
                           const struct exchange_link *link, const struct dataset *data,
                           struct exchange *exchange, struct observer **observer)
{
    if (settings->evaluate_every == 0 || exchange->rank != 0)
        return 0;
    *observer =
        observer_new(link, recipe, data, settings->evaluate_every, settings->progress, exchange->fault);
    if (*observer == NULL)
        return -1;
    exchange_stepgate_watch(exchange, *observer);
    return 0;
}

/* fashion_train -- read the data, open the exchange the settings ask for, train, report. link is
 * NULL when alone. */
static int fashion_train(const struct settings *settings, struct exchange_link *link, struct fault *fault)
{
    struct dataset data = {0};
    struct recipe recipe;
    struct exchange *exchange = NULL;
    struct observer *observer = NULL;
    struct result result = {0};
    bool joining = true;
    int rc = -1;

    if (dataset_read(settings->data, settings->images, &data, fault) < 0)
        return -1;
    if (settings->test_images > 0 && settings->test_images < data.test.count)
        data.test.count = (size_t)settings->test_images;
    if (link != NULL && exchange_link_join(link, fault) < 0)
        goto clear_data;
    unsigned workers = link != NULL ? exchange_link_workers(link) : (unsigned)settings->parts;
    if (trainer_recipe(settings, &data, workers, &recipe, fault) < 0)
        goto clear_data;
    exchange = fashion_exchange(settings, &recipe, link, fault);
    if (exchange == NULL)
        goto clear_data;
    if (exchange->rank == 0 && settings->json != NULL && result_try(settings->json, fault) < 0)
        goto close_exchange;
    if (exchange->rank == 0)
        fashion_announce(&recipe, &data, exchange);
    joining = false;
    if (fashion_observe(settings, &recipe, link, &data, exchange, &observer) < 0)
        goto close_exchange;
    rc = trainer_run(settings, &recipe, &data, exchange, &result);
    if (rc == 0 && observer != NULL)
        result.points = observer_points(observer, &result.points_count);
    if (rc == 0 && exchange->rank == 0)
        rc = fashion_report(settings, &recipe, &result, fault);
close_exchange:
    observer_delete(&observer);
    exchange->operations->close(exchange);
    result_clear(&result);
clear_data:
    if (joining && interrupt_signal() != 0)
        fault_set(fault, 128 + interrupt_signal(), "ended by signal %d while joining", interrupt_signal());
    /* What does not fit the number of workers does not fit any of them: all say so, and nobody is missed. */
    if (rc < 0 && link != NULL && fault->status == FAULT_USAGE)
        exchange_link_leave(link);
    dataset_clear(&data);
    return rc;
}

/* fashion_run -- everything that can go wrong, in one place */
static int fashion_run(int argc, char **argv, struct fault *fault)
{
    struct settings settings;
    struct exchange_link *link = NULL;

    if (settings_is_single(argc, argv)) {
        if (settings_read(&settings, argc, argv, fault) < 0)
            return -1;
    } else {
        link = exchange_link_new(&argc, argv, fault);
        if (link == NULL || settings_read(&settings, argc, argv, fault) < 0) {
            exchange_link_delete(&link);
            return -1;
        }
    }
    if (settings.help) {
        settings_help();
        exchange_link_help();
        exchange_link_delete(&link);
        return 0;
    }
    if (settings.plot_result != NULL) {
        exchange_link_delete(&link);
        return picture_draw(settings.plot_result, settings.plot_picture, fault);
    }
    interrupt_install();
    int rc = fashion_train(&settings, link, fault);
    exchange_link_delete(&link);
    return rc;
}

/* fashion_streams -- /dev/null for each of 0, 1 and 2 that is closed, or another file would get its number */
static void fashion_streams(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* fashion_printed -- whether all that was printed has arrived */
static int fashion_printed(struct fault *fault)
{
    bool lost = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) == 0 && !lost)
        return 0;
    /* Of an earlier write nobody kept the reason. */
    return fault_set(fault, FAULT_PERMANENT, "can't write the output%s%s%s: give it a place that takes it",
                     errno != 0 ? " (" : "", errno != 0 ? strerror(errno) : "", errno != 0 ? ")" : "");
}

int main(int argc, char **argv)
{
    struct fault fault = {0};
    fashion_streams();
    int rc = fashion_run(argc, argv, &fault);
    if (fashion_printed(&fault) == 0 && rc == 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "stepgate-fashion: %s\n", fault.text);
    return fault.status;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-fashion -- trains a convolutional network on Fashion-MNIST: as a worker of a job, or
 * alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/examples/fashion/exchange_stepgate.h"
#include "worker/examples/fashion/interrupt.h"
#include "worker/examples/fashion/picture.h"
#include "worker/examples/fashion/reference.h"
#include "worker/examples/fashion/trainer.h"

/* fashion_report -- the last words of rank 0 */
static int fashion_report(const struct settings *settings, const struct result *result, struct fault *fault)
{
    if (settings->json != NULL && result_write(settings->json, result, settings, fault) < 0)
        return -1;
    printf(
        "test accuracy %.4f, test loss %.4f, training loss %.4f, %.1f s, %.0f images/s, params_sha256 %s\n",
        result->test_accuracy, result->test_loss, result->final_loss, result->seconds,
        result->images_per_second, result->params_sha256);
    return 0;
}

/* fashion_train -- read the data, open the exchange the settings ask for, train, report. link is
 * NULL when alone. */
static int fashion_train(const struct settings *settings, struct exchange_link *link, struct fault *fault)
{
    struct dataset data = {0};
    struct exchange_recipe recipe;
    struct exchange *exchange = NULL;
    struct result result = {0};
    bool joining = true;
    int rc = -1;

    if (dataset_read(settings->data, settings->images, &data, fault) < 0)
        return -1;
    if (settings->test_images > 0 && settings->test_images < data.test.count)
        data.test.count = (size_t)settings->test_images;
    if (link != NULL && exchange_link_join(link, fault) < 0)
        goto clear_data;
    unsigned parts = link != NULL ? exchange_link_workers(link) : (unsigned)settings->parts;
    if (trainer_recipe(settings, &data, parts, &recipe, fault) < 0)
        goto clear_data;
    exchange =
        link != NULL ? exchange_stepgate_new(link, &recipe, fault) : reference_new(&recipe, parts, fault);
    if (exchange == NULL)
        goto clear_data;
    if (exchange->rank == 0 && settings->json != NULL && result_try(settings->json, fault) < 0)
        goto close_exchange;
    if (exchange->rank == 0) {
        printf("training on %zu images, transport %s, %u worker%s, %u ps, one BLAS thread each\n",
               data.train.count, exchange->transport, exchange->workers, exchange->workers == 1 ? "" : "s",
               exchange->ps);
        fflush(stdout);
    }
    joining = false;
    rc = trainer_run(settings, &data, exchange, &result);
    if (rc == 0 && exchange->rank == 0)
        rc = fashion_report(settings, &result, fault);
close_exchange:
    exchange->operations->close(exchange);
    history_clear(&result.history);
clear_data:
    if (joining && interrupt_signal() != 0)
        fault_set(fault, 128 + interrupt_signal(), "ended by signal %d while joining", interrupt_signal());
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

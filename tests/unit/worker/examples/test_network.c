/* SPDX-License-Identifier: BSD-3-Clause */
/* Links with the objects of worker/examples/fashion (the CMake object library stepgate_fashion). */
/* The network against plain loops in double precision: its loss, and every kind of gradient by
 * central differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/examples/fashion/matrix.h"
#include "worker/examples/fashion/network.h"
#include "worker/examples/fashion/random.h"

enum { IMAGES = 3, SIDE = 28, SAMPLES = 12 };

struct fixture {
    struct network *network;
    float *values[NETWORK_VARIABLES];
    float *gradients[NETWORK_VARIABLES];
    uint8_t pixels[IMAGES][SIDE * SIDE];
    unsigned labels[IMAGES];
    unsigned asked[NETWORK_VARIABLES]; /* in which order variables were asked for */
    unsigned asked_count;
    unsigned given[NETWORK_VARIABLES]; /* in which order gradients were complete */
    unsigned given_count;
};

static int give_parameter(void *context, unsigned variable, const float **value)
{
    struct fixture *f = context;
    if (f->asked_count < NETWORK_VARIABLES)
        f->asked[f->asked_count] = variable;
    f->asked_count++;
    *value = f->values[variable];
    return 0;
}

static int give_gradient(void *context, unsigned variable, float **value)
{
    struct fixture *f = context;
    *value = f->gradients[variable];
    return 0;
}

static int take_gradient(void *context, unsigned variable)
{
    struct fixture *f = context;
    if (f->given_count < NETWORK_VARIABLES)
        f->given[f->given_count] = variable;
    f->given_count++;
    return 0;
}

static struct network_traffic traffic_of(struct fixture *f)
{
    return (struct network_traffic){
        .context = f, .parameter = give_parameter, .gradient = give_gradient, .ready = take_gradient};
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct random_stream stream = random_stream_of(7, 7, 7);
    assert_non_null(f);
    assert_int_equal(matrix_threads(), 1);
    f->network = network_new(IMAGES);
    assert_non_null(f->network);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        size_t n = network_variables()[v].elements;
        f->values[v] = calloc(n, sizeof(float));
        f->gradients[v] = calloc(n, sizeof(float));
        assert_non_null(f->values[v]);
        assert_non_null(f->gradients[v]);
        network_initial(v, 5, f->values[v]);
        /* Biases begin at zero; other values find more faults. */
        if (network_variables()[v].rank == 1)
            for (size_t i = 0; i < n; i++)
                f->values[v][i] = (float)(0.1 * random_normal(&stream));
    }
    for (unsigned n = 0; n < IMAGES; n++) {
        f->labels[n] = 3 * n + 1;
        for (unsigned i = 0; i < SIDE * SIDE; i++)
            f->pixels[n][i] = (uint8_t)random_below(&stream, 256);
        network_load(f->network, n, f->pixels[n], f->labels[n]);
    }
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        free(f->values[v]);
        free(f->gradients[v]);
    }
    network_delete(&f->network);
    free(f);
    return 0;
}

/* value_at -- a parameter in double, with one of them shifted */
struct shift {
    unsigned variable;
    uint64_t element;
    double by;
};

static double value_at(const struct fixture *f, const struct shift *shift, unsigned variable,
                       uint64_t element)
{
    double value = (double)f->values[variable][element];
    return shift->variable == variable && shift->element == element ? value + shift->by : value;
}

/* plain_convolution -- valid 5 x 5, bias, 2 x 2 maximum, ReLU, one number at a time */
static void plain_convolution(const struct fixture *f, const struct shift *shift, unsigned variable, int side,
                              int in_channels, int out_channels, const double *in, double *out)
{
    int out_side = side - 4;
    for (int y = 0; y < out_side; y += 2)
        for (int x = 0; x < out_side; x += 2)
            for (int o = 0; o < out_channels; o++) {
                double best = -INFINITY;
                for (int p = 0; p < 4; p++) {
                    double sum = value_at(f, shift, variable + 1, (uint64_t)o);
                    for (int ky = 0; ky < 5; ky++)
                        for (int kx = 0; kx < 5; kx++)
                            for (int c = 0; c < in_channels; c++)
                                sum += in[((y + p / 2 + ky) * side + x + p % 2 + kx) * in_channels + c] *
                                       value_at(
                                           f, shift, variable,
                                           (uint64_t)(((ky * 5 + kx) * in_channels + c) * out_channels + o));
                    best = fmax(best, sum);
                }
                out[((y / 2) * (out_side / 2) + x / 2) * out_channels + o] = fmax(best, 0.0);
            }
}

static void plain_dense(const struct fixture *f, const struct shift *shift, unsigned variable, int inputs,
                        int outputs, const double *in, double *out)
{
    for (int o = 0; o < outputs; o++) {
        out[o] = value_at(f, shift, variable + 1, (uint64_t)o);
        for (int i = 0; i < inputs; i++)
            out[o] += in[i] * value_at(f, shift, variable, (uint64_t)(i * outputs + o));
    }
}

/* plain_loss -- mean loss of the fixture's images */
static double plain_loss(const struct fixture *f, const struct shift *shift)
{
    double loss = 0.0;
    for (int n = 0; n < IMAGES; n++) {
        double in[32 * 32] = {0};
        double out1[14 * 14 * 16];
        double out2[5 * 5 * 32];
        double out3[128];
        double out4[10];
        for (int y = 0; y < SIDE; y++)
            for (int x = 0; x < SIDE; x++)
                in[(y + 2) * 32 + x + 2] = ((double)f->pixels[n][y * SIDE + x] / 255.0 - 0.2860) / 0.3530;
        plain_convolution(f, shift, 0, 32, 1, 16, in, out1);
        plain_convolution(f, shift, 2, 14, 16, 32, out1, out2);
        plain_dense(f, shift, 4, 800, 128, out2, out3);
        for (int i = 0; i < 128; i++)
            out3[i] = fmax(out3[i], 0.0);
        plain_dense(f, shift, 6, 128, 10, out3, out4);
        double sum = 0.0;
        for (int c = 0; c < 10; c++)
            sum += exp(out4[c] - out4[f->labels[n]]);
        loss += log(sum) / IMAGES;
    }
    return loss;
}

static void forward_gives_the_loss_of_a_plain_loop(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score score;
    struct shift none = {.variable = NETWORK_VARIABLES};
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &score), 0);
    double plain = plain_loss(f, &none);
    assert_true(plain > 0.1);
    assert_true(fabs(score.loss / IMAGES - plain) < 1e-5 * plain);
}

static void backward_gives_the_slope_of_a_plain_loop(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score score;
    struct random_stream stream = random_stream_of(1, 2, 3);
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &score), 0);
    assert_int_equal(network_backward(f->network, IMAGES, &traffic), 0);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        size_t n = network_variables()[v].elements;
        double largest = 0.0;
        for (size_t i = 0; i < n; i++)
            largest = fmax(largest, fabs((double)f->gradients[v][i]));
        assert_true(largest > 1e-6);
        for (int s = 0; s < SAMPLES; s++) {
            struct shift up = {v, random_below(&stream, n), 1e-6};
            struct shift down = {v, up.element, -1e-6};
            double slope = (plain_loss(f, &up) - plain_loss(f, &down)) / 2e-6;
            double error = fabs((double)f->gradients[v][up.element] - slope);
            if (error > 1e-4 * largest)
                fail_msg("%s[%llu]: %g, by differences %g", network_variables()[v].name,
                         (unsigned long long)up.element, (double)f->gradients[v][up.element], slope);
        }
    }
}

static void variables_are_asked_for_from_the_first_layer_on(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score score;
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &score), 0);
    assert_int_equal(f->asked_count, NETWORK_VARIABLES);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        assert_int_equal(f->asked[v], v);
}

static void gradients_are_complete_from_the_last_layer_on(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score score;
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &score), 0);
    assert_int_equal(f->given_count, 0);
    assert_int_equal(network_backward(f->network, IMAGES, &traffic), 0);
    assert_int_equal(f->given_count, NETWORK_VARIABLES);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++)
        assert_int_equal(f->given[v], NETWORK_VARIABLES - 1 - v);
}

static void the_same_batch_gives_the_same_bits(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score first, second;
    float *kept = malloc(network_variables()[2].elements * sizeof(float));
    assert_non_null(kept);
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &first), 0);
    assert_int_equal(network_backward(f->network, IMAGES, &traffic), 0);
    memcpy(kept, f->gradients[2], network_variables()[2].elements * sizeof(float));
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &second), 0);
    assert_int_equal(network_backward(f->network, IMAGES, &traffic), 0);
    assert_memory_equal(&first.loss, &second.loss, sizeof first.loss);
    assert_memory_equal(kept, f->gradients[2], network_variables()[2].elements * sizeof(float));
    free(kept);
}

static int refuse_parameter(void *context, unsigned variable, const float **value)
{
    (void)context;
    (void)value;
    return variable == 4 ? -11 : give_parameter(context, variable, value);
}

static void a_refused_variable_ends_forward_with_its_code(void **state)
{
    struct fixture *f = *state;
    struct network_traffic traffic = traffic_of(f);
    struct softmax_score score;
    traffic.parameter = refuse_parameter;
    assert_int_equal(network_forward(f->network, IMAGES, &traffic, &score), -11);
    assert_int_equal(f->asked_count, 4);
}

static void initial_values_depend_on_the_seed(void **state)
{
    struct fixture *f = *state;
    size_t bytes = network_variables()[2].elements * sizeof(float);
    network_initial(2, 5, f->gradients[2]);
    assert_memory_equal(f->gradients[2], f->values[2], bytes);
    network_initial(2, 6, f->gradients[2]);
    assert_memory_not_equal(f->gradients[2], f->values[2], bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forward_gives_the_loss_of_a_plain_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(backward_gives_the_slope_of_a_plain_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(variables_are_asked_for_from_the_first_layer_on, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_are_complete_from_the_last_layer_on, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_batch_gives_the_same_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refused_variable_ends_forward_with_its_code, setup, teardown),
        cmocka_unit_test_setup_teardown(initial_values_depend_on_the_seed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/network.h"

#include <math.h>
#include <stdlib.h>

#include "worker/examples/fashion/convolution.h"
#include "worker/examples/fashion/dataset.h"
#include "worker/examples/fashion/dense.h"
#include "worker/examples/fashion/random.h"

enum {
    NETWORK_PURPOSE = 2, /* keeps the random numbers of initial values apart from others */
    NETWORK_BORDER = 2,
    NETWORK_SIDE = DATASET_SIDE + 2 * NETWORK_BORDER,
    NETWORK_KERNEL = 5,
    NETWORK_CHANNELS_1 = 16,
    NETWORK_CHANNELS_2 = 32,
    NETWORK_SIDE_1 = (NETWORK_SIDE - NETWORK_KERNEL + 1) / 2,
    NETWORK_SIDE_2 = (NETWORK_SIDE_1 - NETWORK_KERNEL + 1) / 2,
    NETWORK_FLAT_1 = NETWORK_SIDE_1 * NETWORK_SIDE_1 * NETWORK_CHANNELS_1,
    NETWORK_FLAT_2 = NETWORK_SIDE_2 * NETWORK_SIDE_2 * NETWORK_CHANNELS_2,
    NETWORK_HIDDEN = 128
};

_Static_assert((NETWORK_SIDE - NETWORK_KERNEL + 1) % 2 == 0, "pooling takes even sides");
_Static_assert((NETWORK_SIDE_1 - NETWORK_KERNEL + 1) % 2 == 0, "pooling takes even sides");

enum network_place {
    CONV1_WEIGHTS,
    CONV1_BIAS,
    CONV2_WEIGHTS,
    CONV2_BIAS,
    DENSE1_WEIGHTS,
    DENSE1_BIAS,
    DENSE2_WEIGHTS,
    DENSE2_BIAS
};

#define NETWORK_CONV(name_, in_, out_)                                                                       \
    {                                                                                                        \
        .name = (name_), .rank = 4, .dims = {NETWORK_KERNEL, NETWORK_KERNEL, (in_), (out_)},                 \
        .elements = NETWORK_KERNEL * NETWORK_KERNEL * (in_) * (out_),                                        \
        .fan_in = NETWORK_KERNEL * NETWORK_KERNEL * (in_)                                                    \
    }
#define NETWORK_DENSE(name_, in_, out_)                                                                      \
    {                                                                                                        \
        .name = (name_), .rank = 2, .dims = {(in_), (out_)}, .elements = (in_) * (out_), .fan_in = (in_)     \
    }
#define NETWORK_BIAS(name_, out_)                                                                            \
    {                                                                                                        \
        .name = (name_), .rank = 1, .dims = {(out_)}, .elements = (out_)                                     \
    }

static const struct network_variable variables[NETWORK_VARIABLES] = {
    [CONV1_WEIGHTS] = NETWORK_CONV("conv1/weights", 1, NETWORK_CHANNELS_1),
    [CONV1_BIAS] = NETWORK_BIAS("conv1/bias", NETWORK_CHANNELS_1),
    [CONV2_WEIGHTS] = NETWORK_CONV("conv2/weights", NETWORK_CHANNELS_1, NETWORK_CHANNELS_2),
    [CONV2_BIAS] = NETWORK_BIAS("conv2/bias", NETWORK_CHANNELS_2),
    [DENSE1_WEIGHTS] = NETWORK_DENSE("dense1/weights", NETWORK_FLAT_2, NETWORK_HIDDEN),
    [DENSE1_BIAS] = NETWORK_BIAS("dense1/bias", NETWORK_HIDDEN),
    [DENSE2_WEIGHTS] = NETWORK_DENSE("dense2/weights", NETWORK_HIDDEN, DATASET_CLASSES),
    [DENSE2_BIAS] = NETWORK_BIAS("dense2/bias", DATASET_CLASSES),
};

struct network {
    size_t capacity;
    struct convolution conv1;
    struct convolution conv2;
    struct dense dense1;
    struct dense dense2;
    uint8_t *labels;
    float *input; /* with a border of zeroes, which stays as calloc made it */
    float *out1, *out2, *out3, *out4;
    float *gradient1, *gradient2, *gradient3, *gradient4; /* of out1 ... out4 */
    const float *values[NETWORK_VARIABLES];               /* of the step being computed */
};

/* network_variables -- the table of NETWORK_VARIABLES variables */
const struct network_variable *network_variables(void)
{
    return variables;
}

/* network_initial -- the first value of a variable, from the seed alone. Half of He's variance: the maximum of four makes
 * up for what ReLU takes, and with all of it a small batch drives every unit to zero in the first steps. */
void network_initial(unsigned variable, uint64_t seed, float *value)
{
    const struct network_variable *v = &variables[variable];
    struct random_stream stream = random_stream_of(seed, NETWORK_PURPOSE, variable);
    double deviation = v->fan_in > 0 ? sqrt(1.0 / (double)v->fan_in) : 0.0;
    for (uint64_t i = 0; i < v->elements; i++)
        value[i] = deviation > 0.0 ? (float)(deviation * random_normal(&stream)) : 0.0F;
}

/* network_new -- memory for batches of up to so many images; NULL without memory */
struct network *network_new(size_t capacity)
{
    struct network *net = calloc(1, sizeof *net);
    if (net == NULL)
        return NULL;
    net->capacity = capacity;
    net->dense1 = (struct dense){.in = NETWORK_FLAT_2, .out = NETWORK_HIDDEN, .relu = true};
    net->dense2 = (struct dense){.in = NETWORK_HIDDEN, .out = DATASET_CLASSES};
    net->labels = calloc(capacity, 1);
    net->input = calloc(capacity * NETWORK_SIDE * NETWORK_SIDE, sizeof(float));
    net->out1 = calloc(capacity * NETWORK_FLAT_1, sizeof(float));
    net->out2 = calloc(capacity * NETWORK_FLAT_2, sizeof(float));
    net->out3 = calloc(capacity * NETWORK_HIDDEN, sizeof(float));
    net->out4 = calloc(capacity * DATASET_CLASSES, sizeof(float));
    net->gradient1 = calloc(capacity * NETWORK_FLAT_1, sizeof(float));
    net->gradient2 = calloc(capacity * NETWORK_FLAT_2, sizeof(float));
    net->gradient3 = calloc(capacity * NETWORK_HIDDEN, sizeof(float));
    net->gradient4 = calloc(capacity * DATASET_CLASSES, sizeof(float));
    int conv1 = convolution_init(&net->conv1, capacity, NETWORK_SIDE, 1, NETWORK_KERNEL, NETWORK_CHANNELS_1);
    int conv2 = convolution_init(&net->conv2, capacity, NETWORK_SIDE_1, NETWORK_CHANNELS_1, NETWORK_KERNEL,
                                 NETWORK_CHANNELS_2);
    if (conv1 < 0 || conv2 < 0 || net->labels == NULL || net->input == NULL || net->out1 == NULL ||
        net->out2 == NULL || net->out3 == NULL || net->out4 == NULL || net->gradient1 == NULL ||
        net->gradient2 == NULL || net->gradient3 == NULL || net->gradient4 == NULL)
        network_delete(&net);
    return net;
}

/* network_delete -- free it and set NULL; safe on NULL */
void network_delete(struct network **network)
{
    struct network *net = *network;
    if (net == NULL)
        return;
    convolution_clear(&net->conv1);
    convolution_clear(&net->conv2);
    float *all[] = {net->input,     net->out1,      net->out2,      net->out3,     net->out4,
                    net->gradient1, net->gradient2, net->gradient3, net->gradient4};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(net->labels);
    free(net);
    *network = NULL;
}

/* network_load -- put an image with its label into place n of the batch */
void network_load(struct network *network, size_t n, const uint8_t *pixels, unsigned label)
{
    /* Mean and deviation of the training images' pixels. */
    const float mean = 0.2860F * 255.0F;
    const float deviation = 0.3530F * 255.0F;
    float *to =
        network->input + n * NETWORK_SIDE * NETWORK_SIDE + NETWORK_BORDER * NETWORK_SIDE + NETWORK_BORDER;
    for (size_t y = 0; y < DATASET_SIDE; y++, to += NETWORK_SIDE, pixels += DATASET_SIDE)
        for (size_t x = 0; x < DATASET_SIDE; x++)
            to[x] = ((float)pixels[x] - mean) / deviation;
    network->labels[n] = (uint8_t)label;
}

/* network_get -- ask for the two variables of a layer */
static int network_get(struct network *net, const struct network_traffic *traffic, unsigned weights)
{
    int rc = traffic->parameter(traffic->context, weights, &net->values[weights]);
    return rc < 0 ? rc : traffic->parameter(traffic->context, weights + 1, &net->values[weights + 1]);
}

/* network_forward -- scores of the first so many images loaded */
int network_forward(struct network *network, size_t images, const struct network_traffic *traffic,
                    struct softmax_score *score)
{
    const float *const *values = network->values;
    int rc;

    if ((rc = network_get(network, traffic, CONV1_WEIGHTS)) < 0)
        return rc;
    convolution_forward(&network->conv1, images, network->input, values[CONV1_WEIGHTS], values[CONV1_BIAS],
                        network->out1);
    if ((rc = network_get(network, traffic, CONV2_WEIGHTS)) < 0)
        return rc;
    convolution_forward(&network->conv2, images, network->out1, values[CONV2_WEIGHTS], values[CONV2_BIAS],
                        network->out2);
    if ((rc = network_get(network, traffic, DENSE1_WEIGHTS)) < 0)
        return rc;
    dense_forward(&network->dense1, images, network->out2, values[DENSE1_WEIGHTS], values[DENSE1_BIAS],
                  network->out3);
    if ((rc = network_get(network, traffic, DENSE2_WEIGHTS)) < 0)
        return rc;
    dense_forward(&network->dense2, images, network->out3, values[DENSE2_WEIGHTS], values[DENSE2_BIAS],
                  network->out4);
    *score = softmax_judge(images, DATASET_CLASSES, network->out4, network->labels, network->gradient4);
    return 0;
}

/* network_give_dense -- the bias first: it is small, and its gradient is there before that of the
 * weights */
static int network_give_dense(const struct network_traffic *traffic, const struct dense *dense,
                              unsigned weights, size_t images, const float *in, const float *out_gradient)
{
    float *to;
    int rc = traffic->gradient(traffic->context, weights + 1, &to);
    if (rc < 0)
        return rc;
    dense_backward_bias(dense, images, out_gradient, to);
    if ((rc = traffic->ready(traffic->context, weights + 1)) < 0 ||
        (rc = traffic->gradient(traffic->context, weights, &to)) < 0)
        return rc;
    dense_backward_weights(dense, images, in, out_gradient, to);
    return traffic->ready(traffic->context, weights);
}

/* network_give_convolution -- as above; the gradient of the input comes along with that of the
 * weights */
static int network_give_convolution(const struct network_traffic *traffic, struct convolution *conv,
                                    unsigned weights, size_t images, const float *in, const float *value,
                                    const float *out_gradient, float *in_gradient)
{
    float *to;
    int rc = traffic->gradient(traffic->context, weights + 1, &to);
    if (rc < 0)
        return rc;
    convolution_backward_bias(conv, images, out_gradient, to);
    if ((rc = traffic->ready(traffic->context, weights + 1)) < 0 ||
        (rc = traffic->gradient(traffic->context, weights, &to)) < 0)
        return rc;
    convolution_backward(conv, images, in, value, out_gradient, to, in_gradient);
    return traffic->ready(traffic->context, weights);
}

/* network_backward -- the gradients of the mean loss, after a forward of as many images */
int network_backward(struct network *network, size_t images, const struct network_traffic *traffic)
{
    const float *const *values = network->values;
    int rc = network_give_dense(traffic, &network->dense2, DENSE2_WEIGHTS, images, network->out3,
                                network->gradient4);
    if (rc < 0)
        return rc;
    dense_backward_input(&network->dense2, images, values[DENSE2_WEIGHTS], network->gradient4,
                         network->gradient3);
    dense_cut(&network->dense1, images, network->out3, network->gradient3);
    rc = network_give_dense(traffic, &network->dense1, DENSE1_WEIGHTS, images, network->out2,
                            network->gradient3);
    if (rc < 0)
        return rc;
    dense_backward_input(&network->dense1, images, values[DENSE1_WEIGHTS], network->gradient3,
                         network->gradient2);
    rc = network_give_convolution(traffic, &network->conv2, CONV2_WEIGHTS, images, network->out1,
                                  values[CONV2_WEIGHTS], network->gradient2, network->gradient1);
    if (rc < 0)
        return rc;
    return network_give_convolution(traffic, &network->conv1, CONV1_WEIGHTS, images, network->input,
                                    values[CONV1_WEIGHTS], network->gradient1, NULL);
}

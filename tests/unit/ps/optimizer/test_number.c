/* SPDX-License-Identifier: BSD-3-Clause */
/* Every 16-bit number widens to its value, every float narrows to the nearest, and sums of squares have one order. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ps/optimizer/number.h"
#include "transport/base/random.h"

#define SEED 20240605
#define ALL 65536

/* A 16-bit format: bits of its mantissa, its lowest exponent of a normal number and its largest number. */
struct format {
    int dtype, mantissa, lowest;
    double largest;
};
static const struct format formats[] = {{NUMBER_F16, 10, -14, 65504.0}, {NUMBER_BF16, 7, -126, 0x1.fep127}};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* format_value -- what bits stand for, as the formats are defined. */
static double format_value(const struct format *f, unsigned bits)
{
    unsigned mantissa = bits & ((1u << f->mantissa) - 1), exponent = (bits & 0x7fffu) >> f->mantissa;
    double sign = bits & 0x8000u ? -1 : 1;

    if (exponent == (0x7fffu >> f->mantissa))
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(mantissa, f->lowest - f->mantissa);
    return sign * ldexp(mantissa + (double)(1u << f->mantissa), f->lowest - f->mantissa + (int)exponent - 1);
}

/* format_nearest -- the value of the format that is nearest to x. */
static double format_nearest(const struct format *f, double x)
{
    if (x == 0 || isinf(x) || isnan(x))
        return x;
    int exponent = ilogb(x) < f->lowest ? f->lowest : ilogb(x);
    double value = ldexp(nearbyint(ldexp(x, f->mantissa - exponent)), exponent - f->mantissa);
    return fabs(value) > f->largest ? copysign(INFINITY, x) : value;
}

/* same -- equal, with the sign of zero, or both NaN. */
static int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

/* float_of -- its bits. */
static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* check_narrow -- one float to one format. */
static void check_narrow(const struct format *f, float x)
{
    uint16_t bits;

    number_narrow_f32(f->dtype, &x, &bits, 1);
    if (!same(format_value(f, bits), format_nearest(f, (double)x)))
        fail_msg("dtype %d: %a became %04x", f->dtype, (double)x, bits);
    if (isnan(x))
        assert_true(((bits >> (f->mantissa - 1)) & 1) == 1 && (signbit(x) != 0) == (bits > 0x7fff));
}

static void bytes_are_those_of_the_types(void **state)
{
    (void)state;
    assert_int_equal(number_bytes(NUMBER_F32), 4);
    assert_int_equal(number_bytes(NUMBER_F64), 8);
    assert_int_equal(number_bytes(NUMBER_F16), 2);
    assert_int_equal(number_bytes(NUMBER_BF16), 2);
    assert_int_equal(number_bytes(0), 0);
    assert_int_equal(number_bytes(5), 0);
}

static void every_16_bit_number_widens_to_its_value(void **state)
{
    (void)state;
    static uint16_t from[ALL];
    static float wide[ALL];
    static double wider[ALL];
    for (unsigned i = 0; i < ALL; i++)
        from[i] = (uint16_t)i;
    for (size_t k = 0; k < FORMATS; k++) {
        number_widen_f32(formats[k].dtype, from, wide, ALL);
        number_widen_f64(formats[k].dtype, from, wider, ALL);
        for (unsigned i = 0; i < ALL; i++) {
            if (!same((double)wide[i], format_value(&formats[k], i)) || !same(wider[i], (double)wide[i]))
                fail_msg("dtype %d: %04x became %a", formats[k].dtype, i, (double)wide[i]);
        }
    }
}

static void every_16_bit_number_comes_back_as_it_was(void **state)
{
    (void)state;
    static uint16_t from[ALL], back[ALL];
    static float wide[ALL];
    for (unsigned i = 0; i < ALL; i++)
        from[i] = (uint16_t)i;
    for (size_t k = 0; k < FORMATS; k++) {
        unsigned quiet = 1u << (formats[k].mantissa - 1);
        number_widen_f32(formats[k].dtype, from, wide, ALL);
        number_narrow_f32(formats[k].dtype, wide, back, ALL);
        for (unsigned i = 0; i < ALL; i++)
            assert_int_equal(back[i], isnan(format_value(&formats[k], i)) ? i | quiet : i);
    }
}

static void floats_around_every_middle_narrow_to_the_nearest(void **state)
{
    (void)state;
    for (size_t k = 0; k < FORMATS; k++)
        for (unsigned i = 0; i < ALL; i++) {
            double low = format_value(&formats[k], i), high = format_value(&formats[k], i + 1);
            if (isnan(low) || isinf(low) || isnan(high))
                continue;
            if (isinf(high)) /* as if the next number was there */
                high = low + (low - format_value(&formats[k], i - 1));
            double middle = (low + high) / 2;
            if (isinf((float)middle))
                continue;
            check_narrow(&formats[k], (float)middle);
            check_narrow(&formats[k], nextafterf((float)middle, INFINITY));
            check_narrow(&formats[k], nextafterf((float)middle, -INFINITY));
            check_narrow(&formats[k], nextafterf((float)low, INFINITY));
            check_narrow(&formats[k], nextafterf((float)low, -INFINITY));
        }
}

static void random_bits_narrow_to_the_nearest(void **state)
{
    (void)state;
    struct random_source random;
    random_seed(&random, SEED);
    for (int i = 0; i < 300000; i++) {
        float x = float_of((uint32_t)random_below(&random, UINT64_C(1) << 32));
        check_narrow(&formats[0], x);
        check_narrow(&formats[0], float_of(0x33000000u + (uint32_t)random_below(&random, 0x15000000u)));
        check_narrow(&formats[1], x);
    }
}

static void the_ends_of_f32_narrow_to_the_nearest(void **state)
{
    (void)state;
    const float ends[] = {0.0f,
                          -0.0f,
                          FLT_MAX,
                          -FLT_MAX,
                          INFINITY,
                          -INFINITY,
                          FLT_TRUE_MIN,
                          FLT_MIN,
                          -FLT_MIN,
                          65504,
                          65519.9f,
                          65520,
                          float_of(0x7f800001u),
                          float_of(0xff800001u),
                          0x1p-24f,
                          0x1p-25f,
                          0x1.8p-24f,
                          float_of(0x7fffffffu),
                          float_of(0xffc00000u)};
    for (size_t k = 0; k < FORMATS; k++)
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
            check_narrow(&formats[k], ends[i]);
}

static void any_length_gives_the_same_bits(void **state)
{
    (void)state;
    static float from[700];
    static uint16_t all[700], some[700];
    static double wide[700], parts[700];
    struct random_source random;
    random_seed(&random, SEED);
    for (int i = 0; i < 700; i++)
        from[i] = float_of((uint32_t)random_below(&random, UINT64_C(1) << 32));
    for (size_t k = 0; k < FORMATS; k++) {
        number_narrow_f32(formats[k].dtype, from, all, 700);
        number_widen_f64(formats[k].dtype, all, wide, 700);
        for (size_t cut = 0; cut <= 700; cut += 7) {
            number_narrow_f32(formats[k].dtype, from, some, cut);
            number_narrow_f32(formats[k].dtype, from + cut, some + cut, 700 - cut);
            assert_memory_equal(all, some, sizeof(all));
            number_widen_f64(formats[k].dtype, all, parts, cut);
            number_widen_f64(formats[k].dtype, all + cut, parts + cut, 700 - cut);
            assert_memory_equal(wide, parts, sizeof(wide));
        }
    }
}

static void wide_types_are_copied_and_nan_becomes_quiet(void **state)
{
    (void)state;
    const float from[] = {-0.0f, 1.5f, FLT_TRUE_MIN, -INFINITY, float_of(0xff800001u)};
    float narrow[5];
    double wide[5], again[5];
    number_widen_f32(NUMBER_F32, from, narrow, 5);
    assert_memory_equal(narrow, from, 4 * sizeof(float));
    assert_true(isnan(narrow[4]));
    number_narrow_f32(NUMBER_F64, from, wide, 5);
    number_widen_f64(NUMBER_F64, wide, again, 5);
    assert_memory_equal(wide, again, sizeof(wide));
    number_narrow_f32(NUMBER_F32, from, narrow, 5);
    for (int i = 0; i < 5; i++)
        assert_true(same((double)from[i], wide[i]) && same((double)from[i], (double)narrow[i]));
    const double doubles[] = {0x1.000001p0, 1e300, 1e-300};
    number_widen_f32(NUMBER_F64, doubles, narrow, 3);
    assert_true(narrow[0] == 1 && narrow[1] == INFINITY && narrow[2] == 0);
}

static void one_bad_element_anywhere_is_noticed(void **state)
{
    (void)state;
    const int dtypes[] = {NUMBER_F32, NUMBER_F64, NUMBER_F16, NUMBER_BF16};
    const float bad[] = {INFINITY, -INFINITY, NAN};
    float plain[37];
    double room[37];
    for (size_t d = 0; d < 4; d++)
        for (size_t i = 0; i <= 37; i++)
            for (size_t b = 0; b < 3; b++) {
                for (size_t j = 0; j < 37; j++)
                    plain[j] = j % 2 ? -60000.0f : 1e-45f;
                if (i < 37)
                    plain[i] = bad[b];
                number_narrow_f32(dtypes[d], plain, room, 37);
                assert_int_equal(number_all_finite(dtypes[d], room, 37), i == 37);
                assert_true(i == 37 || number_all_finite(dtypes[d], room, i));
            }
    assert_true(number_all_finite(NUMBER_F32, plain, 0));
}

/* plain_norm -- the order that the header promises. */
static double plain_norm(const double *p, size_t n)
{
    volatile double s[8] = {0}, square;

    for (size_t i = 0; i < n; i++) {
        square = p[i] * p[i];
        s[i % 8] += square;
    }
    volatile double a = s[0] + s[4], b = s[1] + s[5], c = s[2] + s[6], d = s[3] + s[7];
    volatile double ac = a + c, bd = b + d;
    return ac + bd;
}

static void a_norm_has_one_order(void **state)
{
    (void)state;
    static double p[NUMBER_NORM_MAX], wide[NUMBER_NORM_MAX];
    static float f[NUMBER_NORM_MAX];
    static uint16_t h[NUMBER_NORM_MAX];
    struct random_source random;
    random_seed(&random, SEED);
    for (int i = 0; i < NUMBER_NORM_MAX; i++) {
        p[i] = ldexp((double)random_below(&random, UINT64_C(1) << 53), (int)random_below(&random, 60) - 90);
        f[i] = (float)p[i];
    }
    const size_t sizes[] = {0, 1, 7, 8, 9, 255, 256, 257, 1001, NUMBER_NORM_MAX};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        assert_true(number_norm(NUMBER_F64, p, sizes[k]) == plain_norm(p, sizes[k]));
        number_widen_f64(NUMBER_F32, f, wide, sizes[k]);
        assert_true(number_norm(NUMBER_F32, f, sizes[k]) == plain_norm(wide, sizes[k]));
        number_narrow_f32(NUMBER_BF16, f, h, sizes[k]);
        number_widen_f64(NUMBER_BF16, h, wide, sizes[k]);
        assert_true(number_norm(NUMBER_BF16, h, sizes[k]) == plain_norm(wide, sizes[k]));
    }
}

struct pair {
    double first, second;
};

/* pair_round -- out of line, and of two numbers side by side, which is what gcc 12 makes vectors of. */
__attribute__((noinline)) static void pair_round(struct pair *out, double x, double y, double scale)
{
    out->first = number_rounded_f32(x * scale);
    out->second = number_rounded_f32(y * scale);
}

/* each_round -- the same in a loop. */
__attribute__((noinline)) static void each_round(double *restrict out, const double *restrict in,
                                                 double scale, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = number_rounded_f32(number_rounded_f32(in[i] * scale) + in[i]);
}

/* has_24_bits -- f32 holds it, by its bits. */
static bool has_24_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (bits & ((UINT64_C(1) << 29) - 1)) == 0;
}

static void a_number_is_rounded_to_f32_where_loops_become_vectors(void **state)
{
    (void)state;
    double in[103], out[103];
    struct pair pair;
    for (size_t i = 0; i < 103; i++)
        in[i] = 0.1 + (double)i / 7;
    each_round(out, in, 1.1, 103);
    for (size_t i = 0; i < 103; i++) {
        assert_true(has_24_bits(out[i]) && !has_24_bits(in[i] * 1.1));
        assert_true(fabs(out[i] - in[i] * 2.1) < 1e-6 * out[i]);
        pair_round(&pair, in[i], in[102 - i], 1.1);
        assert_true(has_24_bits(pair.first) && has_24_bits(pair.second));
        assert_true(fabs(pair.first - in[i] * 1.1) <= 0x1p-24 * pair.first * 1.0000001);
    }
    assert_true(number_rounded_f32(16777217) == 16777216 && number_rounded_f32(16777219) == 16777220);
    assert_true(isinf(number_rounded_f32(1e39)) && isnan(number_rounded_f32((double)NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_those_of_the_types),
        cmocka_unit_test(every_16_bit_number_widens_to_its_value),
        cmocka_unit_test(every_16_bit_number_comes_back_as_it_was),
        cmocka_unit_test(floats_around_every_middle_narrow_to_the_nearest),
        cmocka_unit_test(random_bits_narrow_to_the_nearest),
        cmocka_unit_test(the_ends_of_f32_narrow_to_the_nearest),
        cmocka_unit_test(any_length_gives_the_same_bits),
        cmocka_unit_test(wide_types_are_copied_and_nan_becomes_quiet),
        cmocka_unit_test(one_bad_element_anywhere_is_noticed),
        cmocka_unit_test(a_norm_has_one_order),
        cmocka_unit_test(a_number_is_rounded_to_f32_where_loops_become_vectors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

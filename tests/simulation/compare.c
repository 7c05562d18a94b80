/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/compare.h"

#include "tests/simulation/plain.h"

/* compare_array -- a state arena against the reference, in the computing type. */
static bool compare_array(const struct shape_variable *v, const uint8_t *arena,
                          const struct plan_piece *piece, const double *expected)
{
    int dtype = shape_wide(v) ? STEPGATE_F64 : STEPGATE_F32;
    const uint8_t *at = arena + piece->state_offset;

    for (uint64_t e = 0; e < piece->elements; e++) {
        double number = expected[piece->first_element + e];
        uint8_t bits[sizeof(double)];
        plain_put(dtype, bits, 0, number);
        if (!plain_equal(dtype, at + e * plain_bytes(dtype), bits, 1))
            return false;
    }
    return true;
}

/* compare_state -- see the header. */
const char *compare_state(const struct reference *r, const struct shard_model *model,
                          const struct plan_piece *piece, const struct reference_state *state,
                          uint64_t *compared)
{
    static const char *const names[REFERENCE_ARRAYS] = {"master copy", "first slot", "second slot",
                                                        "average"};
    const struct shape_variable *v = &r->shape->variable[piece->variable];
    const struct board *board = &model->board;
    const uint8_t *arenas[REFERENCE_ARRAYS] = {plain_bytes(v->dtype) == 2 ? board->master : NULL,
                                               board->state[0], board->state[1], board->average};

    for (int a = 0; shape_moves(v) && a < REFERENCE_ARRAYS; a++) {
        const double *expected = state->arrays[piece->variable][a];
        if (expected == NULL || arenas[a] == NULL)
            continue;
        if (!compare_array(v, arenas[a], piece, expected))
            return names[a];
        ++*compared;
    }
    return NULL;
}

/* compare_aux -- see the header. */
bool compare_aux(const struct reference *r, const struct shard_model *model, const struct plan_piece *piece)
{
    const struct shape_variable *v = &r->shape->variable[piece->variable];
    const struct board *board = &model->board;
    size_t element = plain_bytes(v->dtype);

    for (uint32_t w = 0; w < r->shape->workers; w++)
        if (!plain_equal(v->dtype, board->aux + w * board->shard->aux_bytes + piece->state_offset,
                         r->aux[w][piece->variable] + piece->first_element * element, piece->elements))
            return false;
    return true;
}

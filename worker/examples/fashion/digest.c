/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/digest.h"

#include <sodium.h>
#include <string.h>

_Static_assert(DIGEST_TEXT_BYTES == 2 * crypto_hash_sha256_BYTES + 1, "two digits a byte and the end");

/* digest_f32 -- of one variable */
static void digest_f32(crypto_hash_sha256_state *state, const float *values, uint64_t n)
{
    unsigned char bytes[4096];
    size_t used = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        for (int b = 0; b < 4; b++)
            bytes[used++] = (unsigned char)(bits >> (8 * b));
        if (used == sizeof bytes) {
            crypto_hash_sha256_update(state, bytes, used);
            used = 0;
        }
    }
    crypto_hash_sha256_update(state, bytes, used);
}

/* digest_16 -- of one variable of 16 bits */
static void digest_16(crypto_hash_sha256_state *state, enum dtype dtype, const float *values, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t bits;
        dtype_narrow(dtype, &values[i], &bits, 1);
        const unsigned char bytes[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)};
        crypto_hash_sha256_update(state, bytes, sizeof bytes);
    }
}

/* digest_of -- hex SHA-256 of the little-endian bytes of all variables, in declaration order */
void digest_of(const float *const values[NETWORK_VARIABLES], enum dtype dtype, char text[DIGEST_TEXT_BYTES])
{
    crypto_hash_sha256_state state;
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_init(&state);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        if (dtype == DTYPE_F32)
            digest_f32(&state, values[v], network_variables()[v].elements);
        else
            digest_16(&state, dtype, values[v], network_variables()[v].elements);
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(text, DIGEST_TEXT_BYTES, hash, sizeof hash);
}

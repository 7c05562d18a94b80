/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/digest.h"

#include <sodium.h>
#include <string.h>

_Static_assert(DIGEST_TEXT_BYTES == 2 * crypto_hash_sha256_BYTES + 1, "two digits a byte and the end");

/* digest_of -- hex SHA-256 of the little-endian bytes of all variables, in declaration order */
void digest_of(const float *const values[NETWORK_VARIABLES], char text[DIGEST_TEXT_BYTES])
{
    crypto_hash_sha256_state state;
    unsigned char hash[crypto_hash_sha256_BYTES];
    unsigned char bytes[4096];

    crypto_hash_sha256_init(&state);
    for (unsigned v = 0; v < NETWORK_VARIABLES; v++) {
        size_t used = 0;
        for (uint64_t i = 0; i < network_variables()[v].elements; i++) {
            uint32_t bits;
            memcpy(&bits, &values[v][i], sizeof bits);
            for (int b = 0; b < 4; b++)
                bytes[used++] = (unsigned char)(bits >> (8 * b));
            if (used == sizeof bytes) {
                crypto_hash_sha256_update(&state, bytes, used);
                used = 0;
            }
        }
        crypto_hash_sha256_update(&state, bytes, used);
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(text, DIGEST_TEXT_BYTES, hash, sizeof hash);
}

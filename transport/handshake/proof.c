/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/handshake/proof.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/base/error.h"

static_assert(PROOF_BYTES == crypto_auth_hmacsha256_BYTES, "the proof is one HMAC-SHA-256");

/* proof_random -- fills with unpredictable bytes. */
void proof_random(void *data, size_t bytes)
{
    randombytes_buf(data, bytes);
}

/* proof_make -- HMAC-SHA-256(secret, prover's hello || verifier's hello). */
void proof_make(const struct proof_secret *secret, const uint8_t prover[STEPGATE_HELLO_BYTES],
                const uint8_t verifier[STEPGATE_HELLO_BYTES], uint8_t out[PROOF_BYTES])
{
    crypto_auth_hmacsha256_state state;

    crypto_auth_hmacsha256_init(&state, secret->data, secret->bytes);
    crypto_auth_hmacsha256_update(&state, prover, STEPGATE_HELLO_BYTES);
    crypto_auth_hmacsha256_update(&state, verifier, STEPGATE_HELLO_BYTES);
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof(state));
}

/* proof_check -- constant-time comparison. */
int proof_check(const struct proof_secret *secret, const uint8_t prover[STEPGATE_HELLO_BYTES],
                const uint8_t verifier[STEPGATE_HELLO_BYTES], const uint8_t proof[PROOF_BYTES])
{
    uint8_t expected[PROOF_BYTES];

    proof_make(secret, prover, verifier, expected);
    /* with equal hellos both sides' proofs are the same: a stranger could send this side's back */
    if (memcmp(prover, verifier, STEPGATE_HELLO_BYTES) == 0 ||
        sodium_memcmp(expected, proof, PROOF_BYTES) != 0)
        return error_set(STEPGATE_EAUTH, 0, "give every process of the job the same secret file",
                         "the peer does not know the job's secret");
    return 0;
}

/* proof_load -- reads a secret file. */
int proof_load(const char *path, struct proof_secret *out)
{
    uint8_t data[sizeof(out->data) + 1]; /* one more than may be there */
    size_t bytes = 0;
    struct stat stat;
    int status = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return error_set(STEPGATE_ESYSTEM, errno, "name a readable file with secret_file",
                         "cannot open the secret file %s", path);
    if (fstat(fd, &stat) != 0) {
        status = error_set(STEPGATE_ESYSTEM, errno, "", "cannot look at the secret file %s", path);
    } else if (S_ISREG(stat.st_mode) && stat.st_nlink > 0 && (stat.st_mode & 077) != 0) {
        /* a memfd has no link in any folder and no meaningful mode */
        status = error_set(STEPGATE_EINVAL, 0, "chmod 600 the file",
                           "the secret file %s can be read by others (mode %o)", path,
                           (unsigned)(stat.st_mode & 0777));
    }
    while (status == 0 && bytes < sizeof(data)) {
        ssize_t n = pread(fd, data + bytes, sizeof(data) - bytes, (off_t)bytes);
        if (n < 0 && errno == ESPIPE)
            n = read(fd, data + bytes, sizeof(data) - bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = error_set(STEPGATE_ESYSTEM, errno, "name a readable file with secret_file",
                               "cannot read the secret file %s", path);
        if (n <= 0)
            break;
        bytes += (size_t)n;
    }
    if (status == 0 && bytes < 16)
        status = error_set(STEPGATE_EINVAL, 0, "write at least 16 random bytes into it",
                           "the secret file %s holds %zu bytes", path, bytes);
    if (status == 0 && bytes > sizeof(out->data))
        status = error_set(STEPGATE_EINVAL, 0, "write 16 to 64 random bytes into it",
                           "the secret file %s holds more than %zu bytes", path, sizeof(out->data));
    close(fd);
    if (status == 0) {
        memcpy(out->data, data, bytes);
        out->bytes = bytes;
    }
    sodium_memzero(data, sizeof(data));
    return status;
}

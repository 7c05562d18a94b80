/* SPDX-License-Identifier: BSD-3-Clause */
/* Only who knows the secret can prove it, for this connection and this direction alone; a secret file is private and of sound length. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "stepgate/error.h"
#include "transport/handshake/proof.h"

/* What two sides of a connection know. */
struct sides {
    struct proof_secret secret;
    uint8_t prover[STEPGATE_HELLO_BYTES], verifier[STEPGATE_HELLO_BYTES];
    uint8_t proof[PROOF_BYTES];
};

/* sides_make -- two hellos, a secret and the prover's proof. */
static void sides_make(struct sides *s)
{
    memset(s, 0, sizeof(*s));
    s->secret.bytes = 32;
    for (size_t i = 0; i < s->secret.bytes; i++)
        s->secret.data[i] = (uint8_t)(3 * i + 1);
    for (size_t i = 0; i < STEPGATE_HELLO_BYTES; i++) {
        s->prover[i] = (uint8_t)i;
        s->verifier[i] = (uint8_t)(200 - i);
    }
    proof_make(&s->secret, s->prover, s->verifier, s->proof);
}

static void the_proof_is_hmac_sha_256_over_both_hellos(void **state)
{
    (void)state;
    /* computed with another implementation: HMAC-SHA-256, key 1, 4, 7, ..., data 0..55 and 200..145 */
    static const uint8_t expected[PROOF_BYTES] = {
        0xf8, 0x81, 0xee, 0xbf, 0x14, 0x63, 0xd0, 0x0f, 0x11, 0x9a, 0xa6, 0xb9, 0x58, 0x2d, 0x5d, 0xc5,
        0x30, 0xd9, 0x73, 0xa9, 0x06, 0x62, 0xc7, 0xe4, 0x47, 0x8b, 0x8b, 0x54, 0xc4, 0x4d, 0x15, 0x3c};
    struct sides s;
    sides_make(&s);
    assert_memory_equal(s.proof, expected, sizeof(expected));
}

static void the_right_proof_is_taken(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), 0);
}

static void another_secret_gives_another_proof(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    for (size_t i = 0; i < s.secret.bytes; i++) {
        struct proof_secret other = s.secret;
        other.data[i] ^= 1;
        assert_int_equal(proof_check(&other, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
    }
}

static void a_shorter_secret_gives_another_proof(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    s.secret.bytes--;
    assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
    s.secret.bytes = 0;
    assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
}

static void every_byte_of_both_hellos_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < STEPGATE_HELLO_BYTES; i++) {
        struct sides s;
        sides_make(&s);
        s.prover[i] ^= 1;
        assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
        sides_make(&s);
        s.verifier[i] ^= 1;
        assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
    }
}

static void every_byte_of_the_proof_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROOF_BYTES; i++) {
        struct sides s;
        sides_make(&s);
        s.proof[i] ^= 0x80;
        assert_int_equal(proof_check(&s.secret, s.prover, s.verifier, s.proof), -STEPGATE_EAUTH);
    }
}

static void a_proof_sent_back_is_refused(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    assert_int_equal(proof_check(&s.secret, s.verifier, s.prover, s.proof), -STEPGATE_EAUTH);
}

static void a_proof_sent_back_behind_ones_own_hello_is_refused(void **state)
{
    (void)state;
    struct sides s;
    sides_make(&s);
    memcpy(s.verifier, s.prover, sizeof(s.verifier)); /* the peer says just what this side said */
    proof_make(&s.secret, s.prover, s.verifier, s.proof);
    assert_int_equal(proof_check(&s.secret, s.verifier, s.prover, s.proof), -STEPGATE_EAUTH);
}

static void random_bytes_do_not_repeat(void **state)
{
    (void)state;
    uint8_t a[16] = {0}, b[16] = {0};
    proof_random(a, sizeof(a));
    proof_random(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
}

/* A folder for secret files. */
static char folder[] = "/tmp/stepgate-proof-XXXXXX";
static char path[sizeof(folder) + 16];

static int folder_make(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof(path), "%s/secret", folder);
    return 0;
}

static int folder_remove(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* secret_write -- a secret file of so many bytes, 1, 2, 3, ..., with a mode. */
static void secret_write(size_t bytes, mode_t mode)
{
    unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (size_t i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(i + 1);
        assert_int_equal(write(fd, &byte, 1), 1);
    }
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

/* secret_refused -- the file is not taken, and *out is left alone. */
static void secret_refused(const char *file, int code, const char *word)
{
    struct proof_secret out = {.bytes = 99};
    struct stepgate_error error = {.size = sizeof(error)};

    assert_int_equal(proof_load(file, &out), -code);
    assert_int_equal(out.bytes, 99);
    assert_int_equal(stepgate_error_last(&error), 0);
    assert_non_null(strstr(error.text, file));
    assert_non_null(strstr(error.text, word));
}

/* secret_taken -- so many bytes were read. */
static void secret_taken(const char *file, size_t bytes)
{
    struct proof_secret out;

    assert_int_equal(proof_load(file, &out), 0);
    assert_int_equal(out.bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(out.data[i], i + 1);
}

static void a_private_file_of_16_to_64_bytes_is_taken(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 17, 32, 63, 64};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        secret_write(sizes[i], 0600);
        secret_taken(path, sizes[i]);
    }
}

static void a_file_that_cannot_be_written_is_taken(void **state)
{
    (void)state;
    secret_write(32, 0400);
    secret_taken(path, 32);
}

static void a_file_that_others_can_reach_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0640, 0604, 0644, 0620, 0602, 0610, 0601};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        secret_write(32, modes[i]);
        secret_refused(path, STEPGATE_EINVAL, "others");
    }
}

static void an_empty_or_short_file_is_refused(void **state)
{
    (void)state;
    secret_write(0, 0600);
    secret_refused(path, STEPGATE_EINVAL, " 0 bytes");
    secret_write(15, 0600);
    secret_refused(path, STEPGATE_EINVAL, " 15 bytes");
}

static void a_file_that_is_too_long_is_refused(void **state)
{
    (void)state;
    secret_write(65, 0600);
    secret_refused(path, STEPGATE_EINVAL, "64");
    secret_write(10000, 0600);
    secret_refused(path, STEPGATE_EINVAL, "64");
}

static void a_missing_file_is_refused(void **state)
{
    (void)state;
    unlink(path);
    secret_refused(path, STEPGATE_ESYSTEM, "open");
}

static void a_folder_is_refused(void **state)
{
    (void)state;
    secret_refused(folder, STEPGATE_ESYSTEM, "read");
}

static void memory_handed_on_by_descriptor_is_taken_more_than_once(void **state)
{
    (void)state;
    char file[64];
    uint8_t bytes[32];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i + 1);
    int fd = memfd_create("secret", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
    secret_taken(file, 32);
    secret_taken(file, 32);
    close(fd);
}

static void a_pipe_is_taken(void **state)
{
    (void)state;
    char file[64];
    uint8_t bytes[32];
    int fds[2];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i + 1);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(write(fds[1], bytes, sizeof(bytes)), sizeof(bytes));
    close(fds[1]);
    snprintf(file, sizeof(file), "/proc/self/fd/%d", fds[0]);
    secret_taken(file, 32);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_proof_is_hmac_sha_256_over_both_hellos),
        cmocka_unit_test(the_right_proof_is_taken),
        cmocka_unit_test(another_secret_gives_another_proof),
        cmocka_unit_test(a_shorter_secret_gives_another_proof),
        cmocka_unit_test(every_byte_of_both_hellos_counts),
        cmocka_unit_test(every_byte_of_the_proof_counts),
        cmocka_unit_test(a_proof_sent_back_is_refused),
        cmocka_unit_test(a_proof_sent_back_behind_ones_own_hello_is_refused),
        cmocka_unit_test(random_bytes_do_not_repeat),
        cmocka_unit_test(a_private_file_of_16_to_64_bytes_is_taken),
        cmocka_unit_test(a_file_that_cannot_be_written_is_taken),
        cmocka_unit_test(a_file_that_others_can_reach_is_refused),
        cmocka_unit_test(an_empty_or_short_file_is_refused),
        cmocka_unit_test(a_file_that_is_too_long_is_refused),
        cmocka_unit_test(a_missing_file_is_refused),
        cmocka_unit_test(a_folder_is_refused),
        cmocka_unit_test(memory_handed_on_by_descriptor_is_taken_more_than_once),
        cmocka_unit_test(a_pipe_is_taken),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/examples/fashion/idx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* The header, all numbers big-endian:
 *
 *     0  0  type  rank | dims[0] (32 bit) | ... | dims[rank - 1] (32 bit) | the elements
 *
 * type 0x08 is unsigned bytes. */
enum { IDX_TYPE_U8 = 0x08, IDX_DIM_MAX = 1 << 24 };

#define IDX_REMEDY "install Debian's dataset-fashion-mnist afresh, or name another folder with --data DIR"

/* idx_fill -- read exactly so many bytes, or say what is wrong with the file */
static int idx_fill(gzFile file, const char *path, void *to, size_t bytes, struct fault *fault)
{
    uint8_t *at = to;
    while (bytes > 0) {
        unsigned want = bytes > (1U << 20) ? 1U << 20 : (unsigned)bytes;
        int got = gzread(file, at, want);
        if (got < 0) {
            int code = Z_OK;
            return fault_set(fault, FAULT_PERMANENT, "%s is damaged (%s): " IDX_REMEDY, path,
                             gzerror(file, &code));
        }
        if (got == 0)
            return fault_set(fault, FAULT_PERMANENT, "%s is truncated, %zu bytes are missing: " IDX_REMEDY,
                             path, bytes);
        at += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* idx_header -- read and check magic and dimensions; gives the number of elements */
static int idx_header(gzFile file, const char *path, unsigned rank, struct idx *out, size_t *elements,
                      struct fault *fault)
{
    uint8_t magic[4];
    if (idx_fill(file, path, magic, sizeof magic, fault) < 0)
        return -1;
    if (magic[0] != 0 || magic[1] != 0 || magic[2] != IDX_TYPE_U8 || magic[3] != rank)
        return fault_set(fault, FAULT_PERMANENT,
                         "%s has magic %02x%02x%02x%02x where an IDX file of bytes with %u dimensions has "
                         "0000%02x%02x: " IDX_REMEDY,
                         path, magic[0], magic[1], magic[2], magic[3], rank, IDX_TYPE_U8, rank);
    *elements = 1;
    for (unsigned i = 0; i < rank; i++) {
        uint8_t big[4];
        if (idx_fill(file, path, big, sizeof big, fault) < 0)
            return -1;
        size_t dim = (size_t)big[0] << 24 | (size_t)big[1] << 16 | (size_t)big[2] << 8 | big[3];
        if (dim == 0 || dim > IDX_DIM_MAX || *elements > ((size_t)1 << 32) / dim)
            return fault_set(fault, FAULT_PERMANENT, "%s has a dimension of %zu, which can't be: " IDX_REMEDY,
                             path, dim);
        out->dims[i] = dim;
        *elements *= dim;
    }
    out->rank = rank;
    return 0;
}

/* idx_read -- read a whole gzip IDX file of unsigned bytes that must have the given rank */
int idx_read(const char *path, unsigned rank, struct idx *out, struct fault *fault)
{
    struct idx idx = {0};
    size_t elements = 0;
    uint8_t beyond;
    int code = Z_OK;

    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return fault_set(fault, FAULT_PERMANENT, "can't open %s (%s): " IDX_REMEDY, path,
                         errno != 0 ? strerror(errno) : "out of memory");
    if (idx_header(file, path, rank, &idx, &elements, fault) < 0)
        goto close;
    idx.bytes = malloc(elements);
    if (idx.bytes == NULL) {
        fault_set(fault, FAULT_PERMANENT, "%s needs %zu bytes of memory, which this machine refuses", path,
                  elements);
        goto close;
    }
    if (idx_fill(file, path, idx.bytes, elements, fault) < 0)
        goto free_bytes;
    /* One more read also makes zlib check the length and the CRC at the end of the stream. */
    int got = gzread(file, &beyond, 1);
    if (got != 0) {
        fault_set(fault, FAULT_PERMANENT, "%s is damaged (%s): " IDX_REMEDY, path,
                  got > 0 ? "more bytes than its header says" : gzerror(file, &code));
        goto free_bytes;
    }
    gzerror(file, &code);
    if (code != Z_OK) {
        fault_set(fault, FAULT_PERMANENT, "%s is truncated at its end: " IDX_REMEDY, path);
        goto free_bytes;
    }
    gzclose(file);
    *out = idx;
    return 0;

free_bytes:
    free(idx.bytes);
close:
    gzclose(file);
    return -1;
}

/* idx_clear -- free what idx_read took; safe on a zeroed struct */
void idx_clear(struct idx *idx)
{
    free(idx->bytes);
    *idx = (struct idx){0};
}

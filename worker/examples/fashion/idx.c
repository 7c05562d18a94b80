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
enum { IDX_TYPE_U8 = 0x08, IDX_DIM_MAX = 1 << 24, IDX_READ_MAX = 1 << 30 };

#define IDX_REMEDY "install Debian's dataset-fashion-mnist afresh, or name another folder with --data DIR"

/* idx_fill -- read exactly so few bytes of the header, or say what is wrong with the file */
static int idx_fill(gzFile file, const char *path, uint8_t *at, unsigned bytes, struct fault *fault)
{
    while (bytes > 0) {
        int got = gzread(file, at, bytes);
        if (got < 0) {
            int code = Z_OK;
            return fault_set(fault, FAULT_PERMANENT, "%s is damaged (%s): " IDX_REMEDY, path,
                             gzerror(file, &code));
        }
        if (got == 0)
            return fault_set(fault, FAULT_PERMANENT, "%s is truncated, %u bytes are missing: " IDX_REMEDY,
                             path, bytes);
        at += got;
        bytes -= (unsigned)got;
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

/*
 * idx_elements -- read all elements. One byte more than there should be is asked for: zlib looks at the end of the stream, with its length
 * and CRC, only while the caller still has room.
 */
static int idx_elements(gzFile file, const char *path, uint8_t *to, size_t elements, struct fault *fault)
{
    size_t there = 0;
    int code = Z_OK;

    while (there <= elements) {
        size_t want = elements + 1 - there;
        int got = gzread(file, to + there, want > IDX_READ_MAX ? IDX_READ_MAX : (unsigned)want);
        if (got < 0)
            return fault_set(fault, FAULT_PERMANENT, "%s is damaged (%s): " IDX_REMEDY, path,
                             gzerror(file, &code));
        if (got == 0)
            break;
        there += (size_t)got;
    }
    if (there > elements)
        return fault_set(fault, FAULT_PERMANENT,
                         "%s is damaged (more bytes than its header says): " IDX_REMEDY, path);
    if (there < elements)
        return fault_set(fault, FAULT_PERMANENT, "%s is truncated, %zu bytes are missing: " IDX_REMEDY, path,
                         elements - there);
    gzerror(file, &code);
    if (code != Z_OK)
        return fault_set(fault, FAULT_PERMANENT, "%s is truncated at its end: " IDX_REMEDY, path);
    return 0;
}

/* idx_read -- read a whole gzip IDX file of unsigned bytes that must have the given rank */
int idx_read(const char *path, unsigned rank, struct idx *out, struct fault *fault)
{
    struct idx idx = {0};
    size_t elements = 0;

    errno = 0;
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        return fault_set(fault, FAULT_PERMANENT, "can't open %s (%s): " IDX_REMEDY, path,
                         errno != 0 ? strerror(errno) : "out of memory");
    if (idx_header(file, path, rank, &idx, &elements, fault) < 0)
        goto close;
    idx.bytes = malloc(elements + 1);
    if (idx.bytes == NULL) {
        fault_set(fault, FAULT_PERMANENT,
                  "there is no memory for the %zu bytes of %s: free some, or look at the file", elements,
                  path);
        goto close;
    }
    if (idx_elements(file, path, idx.bytes, elements, fault) < 0)
        goto free_bytes;
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

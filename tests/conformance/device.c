/* SPDX-License-Identifier: BSD-3-Clause */
/* device -- memory that another driver has exported: a dma-buf made of a file in memory, where the kernel can make one, else the file itself. */
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/promise.h"
#include "tests/conformance/transfer.h"

#define DEVICE_BYTES UINT64_C(16384)
#define DEVICE_OFFSET UINT64_C(4096)

/* device_export -- a dma-buf with the file's bytes; the file, if there can be none. */
static int device_export(int file)
{
    int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
    struct udmabuf_create create = {
        .memfd = (uint32_t)file, .flags = UDMABUF_FLAGS_CLOEXEC, .size = DEVICE_BYTES};
    int exported = -1;

    if (maker >= 0) {
        exported = ioctl(maker, UDMABUF_CREATE, &create);
        close(maker);
    }
    return exported >= 0 ? exported : dup(file);
}

/* device_moves -- bytes go out of it and into it, from an offset on. */
static int device_moves(struct suite *suite, struct link *link, struct stepgate_region *own, uint8_t *view,
                        struct stepgate_region *target, struct stepgate_remote *remote)
{
    const uint64_t bytes = DEVICE_BYTES - DEVICE_OFFSET;

    suite_fill(view, bytes, 21);
    if (transfer_write(suite, link, own, 0, remote, 0, bytes, 10000) < 0)
        return -1;
    CHECK(suite, suite_differs(target->address, bytes, 21) < 0,
          "a write out of a dma-buf brought other bytes");
    suite_fill(target->address, bytes, 22);
    if (transfer_read(suite, link, own, 0, remote, 0, bytes, 10000) < 0)
        return -1;
    CHECK(suite, suite_differs(view, bytes, 22) < 0, "a read into a dma-buf brought other bytes");
    return 0;
}

/* device_try -- a region of it, which may be refused, but with a reason. */
static int device_try(struct suite *suite, uint8_t *view, int fd)
{
    const struct stepgate_dmabuf part = {.fd = fd, .offset = DEVICE_OFFSET};
    struct stepgate_region_options options = {
        .size = sizeof(options), .length = DEVICE_BYTES - DEVICE_OFFSET, .dmabuf = &part};
    struct party *party[2];
    struct link link;
    struct stepgate_region *source, *target, *own = NULL;
    struct stepgate_remote *remote;

    if (transfer_open(suite, DEVICE_BYTES, party, &link, &source, &target, &remote) < 0)
        return -1;
    int answer = suite->transport->region_new(party[0]->domain, &options, &own);
    if (answer != 0) {
        CHECK(suite, answer == -STEPGATE_ENOTSUP || answer == -STEPGATE_EINVAL,
              "a dma-buf was answered with %d, %s", answer, suite_error());
        CHECK(suite, strstr(suite_error(), "dma-buf") != NULL, "the text does not name what was refused: %s",
              suite_error());
        return 0;
    }
    int rc = device_moves(suite, &link, own, view + DEVICE_OFFSET, target, remote);
    suite->transport->region_delete(&own);
    return rc;
}

/* promise_device_memory -- moved without a processor, or refused. */
int promise_device_memory(struct suite *suite)
{
    int file = memfd_create("device", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    CHECK(suite,
          file >= 0 && ftruncate(file, (off_t)DEVICE_BYTES) == 0 &&
              fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
          "no file in memory");
    uint8_t *view = mmap(NULL, DEVICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int fd = device_export(file), rc = -1;
    if (view != MAP_FAILED)
        rc = device_try(suite, view, fd);
    close(fd);
    close(file);
    if (view != MAP_FAILED)
        munmap(view, DEVICE_BYTES);
    return rc;
}

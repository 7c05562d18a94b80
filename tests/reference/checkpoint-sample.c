/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint-sample DIR MODEL STEP SHARDS -- writes a checkpoint (tests/unit/ps/checkpoint/sample.h), for those who read what we write. Prints its folder. */
#include <inttypes.h>

#include "tests/unit/ps/checkpoint/sample.h"
#include "transport/base/exit_status.h"

/* main -- see above. */
int main(int argc, char **argv)
{
    char folder[PATH_MAX], line[1024];

    if (argc != 5)
        return EXIT_STATUS_USAGE;
    int code = sample_write(argv[1], argv[2], strtoull(argv[3], NULL, 10),
                            (uint32_t)strtoul(argv[4], NULL, 10), folder);
    if (code != 0) {
        exit_status_line(code, line, sizeof(line));
        fprintf(stderr, "checkpoint-sample: %s\n", line);
        return EXIT_STATUS_PERMANENT;
    }
    printf("%s\n", folder);
    return EXIT_STATUS_OK;
}

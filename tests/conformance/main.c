/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-conformance -- tests every promise of the transport contract against one transport. */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/conformance/suite.h"
#include "transport/base/clock.h"

#define MAIN_SEEDS 25
#define MAIN_SEEDS_QUICK 5

/* main_usage -- what the program takes. */
static int main_usage(FILE *to, int status)
{
    fputs("usage: stepgate-conformance --transport simulated|shm|verbs|NAME [--transport-library FILE] "
          "[--address HOST] "
          "[--quick] [--only NAME] [--seed N]\n"
          "       stepgate-conformance --list\n"
          "  --transport-library FILE  a shared object whose function stepgate_transport_module returns the "
          "table of transport NAME\n"
          "  --address HOST  local address of the device (verbs), or to listen on (shm)\n"
          "  --quick         fewer rounds, no transfer beyond 4 GiB over shm\n"
          "  --only NAME     one promise\n"
          "  --seed N        first seed of the random sizes, and of the simulated worlds\n",
          to);
    return status;
}

/* main_once -- runs a promise one time. */
static int main_once(struct suite *suite, const struct promise *promise)
{
    int rc = suite_begin(suite);

    if (rc == 0)
        rc = promise->run(suite);
    int ended = suite_end(suite);
    return rc == 0 ? ended : rc;
}

/* main_promise -- runs a promise; on the simulated transport from many seeds, with and without mapped memory. */
static int main_promise(struct suite *suite, const struct promise *promise, uint64_t seed)
{
    uint64_t seeds = !suite->simulated ? 1 : promise->once ? 1 : suite->quick ? MAIN_SEEDS_QUICK : MAIN_SEEDS;
    int result = SUITE_LEFT_OUT;

    for (uint64_t i = 0; i < seeds; i++) {
        for (int mapped = 0; mapped <= suite->simulated; mapped++) {
            suite->seed = seed + i;
            suite->mapped = mapped != 0;
            int rc = main_once(suite, promise);
            if (rc < 0) {
                size_t used = strlen(suite->why);
                if (suite->simulated)
                    snprintf(suite->why + used, sizeof(suite->why) - used, " (seed %llu, %smapped)",
                             (unsigned long long)suite->seed, mapped ? "" : "not ");
                return rc;
            }
            if (rc == 0)
                result = 0;
        }
    }
    return result;
}

/* main_run -- runs the chosen promises and prints how they went. */
static int main_run(struct suite *suite, const char *only, uint64_t seed)
{
    unsigned passed = 0, failed = 0, left_out = 0, found = 0;

    for (const struct promise *promise = suite_promises; promise->name != NULL; promise++) {
        if (only != NULL && strcmp(only, promise->name) != 0)
            continue;
        found++;
        uint64_t start = clock_now();
        int rc = main_promise(suite, promise, seed);
        double seconds = (double)(clock_now() - start) / 1e9;
        if (rc < 0) {
            printf("FAILED %s: %s\n", promise->name, suite->why);
            failed++;
        } else if (rc == SUITE_LEFT_OUT) {
            printf("left out %s: %s\n", promise->name, suite->why);
            left_out++;
        } else {
            printf("ok %s (%.2f s)\n", promise->name, seconds);
            passed++;
        }
        fflush(stdout);
    }
    if (found == 0) {
        fprintf(stderr, "stepgate-conformance: no promise is named %s (see --list)\n", only);
        return 2;
    }
    if (left_out > 0)
        printf("%u left out\n", left_out);
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0 || passed == 0;
}

/* main_load -- registers the transport of a shared object, which stays open. */
static int main_load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "stepgate_transport_module") : NULL;
    const struct stepgate_transport_v1 *(*module)(void) = NULL;

    if (symbol == NULL) {
        fprintf(stderr, "stepgate-conformance: %s\n", dlerror());
        return -1;
    }
    memcpy(&module, &symbol, sizeof(module));
    if (stepgate_transport_register(module()) == 0)
        return 0;
    fprintf(stderr, "stepgate-conformance: %s: %s\n", path, suite_error());
    return -1;
}

/* main_transport -- the table of a transport by its name; NULL: unknown. */
static const struct stepgate_transport_v1 *main_transport(const char *name)
{
    const struct stepgate_transport_v1 *table = NULL;

    if (strcmp(name, "simulated") == 0)
        return simulated_transport();
    return stepgate_transport_find(name, &table) == 0 ? table : NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"transport", required_argument, NULL, 't'},
                                            {"transport-library", required_argument, NULL, 'm'},
                                            {"address", required_argument, NULL, 'a'},
                                            {"quick", no_argument, NULL, 'q'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"peer", required_argument, NULL, 'p'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static struct suite suite;
    static char self[4096];
    const char *transport = NULL, *only = NULL, *peer = NULL;
    uint64_t seed = 1;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't': transport = optarg; break;
        case 'm': suite.library = optarg[0] != 0 ? optarg : NULL; break;
        case 'a': suite.host = optarg[0] != 0 ? optarg : NULL; break;
        case 'q': suite.quick = true; break;
        case 'o': only = optarg; break;
        case 's': seed = strtoull(optarg, NULL, 0); break;
        case 'p': peer = optarg; break;
        case 'l':
            for (const struct promise *promise = suite_promises; promise->name != NULL; promise++)
                puts(promise->name);
            return 0;
        case 'h': return main_usage(stdout, 0);
        default: return main_usage(stderr, 2);
        }
    }
    if (transport == NULL || optind < argc)
        return main_usage(stderr, 2);
    if (suite.library != NULL && main_load(suite.library) < 0)
        return 2;
    suite.transport = main_transport(transport);
    if (suite.transport == NULL) {
        fprintf(stderr, "stepgate-conformance: there is no transport %s\n", transport);
        return 2;
    }
    suite.simulated = strcmp(transport, "simulated") == 0;
    suite.soft = strcmp(transport, "verbs") == 0;
    suite.seed = seed;
    if (suite.soft && suite.host == NULL) {
        fputs("stepgate-conformance: verbs needs --address, the address of the device's network interface\n",
              stderr);
        return 2;
    }
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    suite.self = length > 0 ? self : argv[0];
    if (peer != NULL)
        return peer_main(&suite, peer);
    return main_run(&suite, only, seed);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* stepgate-scenario -- plays the rules of synchronous updates, one scenario each, with whole jobs on one transport. */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stepgate/error.h"
#include "tests/scenario/scenario.h"
#include "transport/base/clock.h"
#include "transport/shm/shm.h"
#include "transport/verbs/verbs.h"

#define MAIN_SEEDS 4

static const struct scenario *const main_lists[] = {scenario_examples,
                                                    scenario_steps,
                                                    scenario_tf,
                                                    scenario_strict,
                                                    scenario_absence,
                                                    scenario_modes,
                                                    scenario_optimizers,
                                                    scenario_dtypes,
                                                    scenario_sparse,
                                                    scenario_checkpoints,
                                                    scenario_resumes,
                                                    scenario_limits,
                                                    NULL};

/* main_usage -- what the program takes. */
static int main_usage(FILE *to, int status)
{
    fputs("usage: stepgate-scenario --transport simulated|shm|verbs [--address HOST] [--only NAME] [--all] "
          "[--seed N] [--seeds N]\n"
          "       stepgate-scenario --list\n"
          "       stepgate-scenario --rules FILE\n"
          "  --address HOST  local address of the device (verbs), or to listen on (shm)\n"
          "  --only NAME     one scenario\n"
          "  --all           over verbs, too: else there only those that are short\n"
          "  --seed N        first seed of the simulated worlds\n"
          "  --seeds N       worlds per scenario, each with and without mapped memory\n"
          "  --rules FILE    checks that FILE names every scenario, and nothing that there is not\n",
          to);
    return status;
}

/* main_play -- a scenario once. */
static int main_play(const struct scenario *scenario, struct ground *ground)
{
    struct stage stage = {.ground = ground};

    ground->why[0] = 0;
    int status = scenario->run(&stage);
    while (stage.job_count > 0)
        if (status == 0)
            status = stage_close(&stage);
        else
            stage_drop(&stage);
    return status;
}

/* main_scenario -- a scenario on every ground there is. */
static int main_scenario(const struct scenario *scenario, struct ground *ground, uint64_t seed,
                         uint64_t seeds)
{
    for (uint64_t i = 0; i < (ground->simulated ? seeds : 1); i++)
        for (int mapped = 0; mapped <= ground->simulated; mapped++) {
            ground->seed = seed + i;
            ground->mapped = mapped != 0;
            if (main_play(scenario, ground) == 0)
                continue;
            size_t used = strlen(ground->why);
            if (ground->simulated)
                snprintf(ground->why + used, sizeof(ground->why) - used, " (seed %llu, %smapped)",
                         (unsigned long long)ground->seed, mapped ? "" : "not ");
            return -1;
        }
    return 0;
}

/* main_run -- the chosen scenarios. */
static int main_run(struct ground *ground, const char *only, bool all, uint64_t seed, uint64_t seeds)
{
    unsigned passed = 0, failed = 0;

    for (size_t l = 0; main_lists[l] != NULL; l++)
        for (const struct scenario *s = main_lists[l]; s->name != NULL; s++) {
            if (only != NULL ? strcmp(only, s->name) != 0 : ground->soft && !all && !s->everywhere)
                continue;
            if (main_scenario(s, ground, seed, seeds) == 0) {
                printf("ok %s\n", s->name);
                passed++;
            } else {
                printf("FAILED %s %s\n", s->name, ground->why);
                failed++;
            }
            fflush(stdout);
        }
    if (passed + failed == 0) {
        fprintf(stderr, "stepgate-scenario: no scenario is named %s (see --list)\n", only);
        return 2;
    }
    printf("events: %-28s %10llu\n", "steps", (unsigned long long)ground->steps);
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}

/* main_known -- is there a scenario of that name? */
static bool main_known(const char *name)
{
    for (size_t l = 0; main_lists[l] != NULL; l++)
        for (const struct scenario *s = main_lists[l]; s->name != NULL; s++)
            if (strcmp(s->name, name) == 0)
                return true;
    return false;
}

/* main_place -- what stands in the list for a rule: a scenario, or a file, maybe with a name that stands in it. */
static bool main_place(const char *text)
{
    char path[512], line[4096];
    const char *colon = strchr(text, ':');

    if (strchr(text, '/') == NULL)
        return main_known(text);
    snprintf(path, sizeof(path), "%.*s", (int)(colon != NULL ? (size_t)(colon - text) : strlen(text)), text);
    FILE *file = fopen(path, "re");
    bool found = file != NULL && colon == NULL;
    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = strstr(line, colon + 1) != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

/* main_line -- every `word` in the last column of a row of the table; counts those that there are not. */
static unsigned main_line(char *line, const char *path, unsigned number, bool *named)
{
    char *column = strrchr(line, '|'), *rest = NULL;
    unsigned wrong = 0;

    if (line[0] != '|' || column == NULL || column == line)
        return 0;
    *column = 0;
    column = strrchr(line, '|');
    for (char *word = strtok_r(column + 1, ", \t", &rest); word != NULL;
         word = strtok_r(NULL, ", \t", &rest)) {
        size_t length = strlen(word);
        if (length < 3 || word[0] != '`' || word[length - 1] != '`')
            continue;
        word[length - 1] = 0;
        if (!main_place(word + 1)) {
            printf("FAILED %s:%u: there is no %s\n", path, number, word + 1);
            wrong++;
        }
        size_t at = 0;
        for (size_t l = 0; main_lists[l] != NULL; l++)
            for (const struct scenario *s = main_lists[l]; s->name != NULL; s++, at++)
                named[at] = named[at] || strcmp(s->name, word + 1) == 0;
    }
    return wrong;
}

/* main_rules -- does the list of rules name what there is, and all of it? Paths are those from the folder in which this runs. */
static int main_rules(const char *path)
{
    static bool named[1024];
    char line[4096];
    unsigned wrong = 0, right = 0, number = 0;
    size_t at = 0;
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        fprintf(stderr, "stepgate-scenario: %s cannot be read\n", path);
        return 2;
    }
    while (fgets(line, sizeof(line), file) != NULL)
        wrong += main_line(line, path, ++number, named);
    fclose(file);
    for (size_t l = 0; main_lists[l] != NULL; l++)
        for (const struct scenario *s = main_lists[l]; s->name != NULL; s++, at++) {
            right += named[at];
            wrong += !named[at];
            if (!named[at])
                printf("FAILED %s does not name %s\n", path, s->name);
        }
    printf("%u passed, %u failed\n", right, wrong);
    return wrong > 0;
}

/* main_list -- the names. */
static int main_list(void)
{
    for (size_t l = 0; main_lists[l] != NULL; l++)
        for (const struct scenario *s = main_lists[l]; s->name != NULL; s++)
            puts(s->name);
    return 0;
}

/* main_ground -- the transport of that name. */
static int main_ground(struct ground *ground, const char *name)
{
    ground->simulated = strcmp(name, "simulated") == 0;
    ground->soft = strcmp(name, "verbs") == 0;
    ground->transport = ground->simulated          ? simulated_transport()
                        : ground->soft             ? verbs_transport()
                        : strcmp(name, "shm") == 0 ? shm_transport()
                                                   : NULL;
    if (ground->transport == NULL)
        fprintf(stderr, "stepgate-scenario: there is no transport %s\n", name);
    else if (ground->soft && ground->host == NULL)
        fputs("stepgate-scenario: verbs needs --address, the address of the device's network interface\n",
              stderr);
    return ground->transport == NULL || (ground->soft && ground->host == NULL) ? 2 : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"transport", required_argument, NULL, 't'},
                                            {"address", required_argument, NULL, 'a'},
                                            {"only", required_argument, NULL, 'o'},
                                            {"all", no_argument, NULL, 'e'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"seeds", required_argument, NULL, 'n'},
                                            {"rules", required_argument, NULL, 'r'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    static struct ground ground;
    const char *transport = NULL, *only = NULL;
    uint64_t seed = 1, seeds = MAIN_SEEDS;
    bool all = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't': transport = optarg; break;
        case 'a': ground.host = optarg; break;
        case 'o': only = optarg; break;
        case 'e': all = true; break;
        case 's': seed = strtoull(optarg, NULL, 0); break;
        case 'n': seeds = strtoull(optarg, NULL, 0); break;
        case 'r': return main_rules(optarg);
        case 'l': return main_list();
        case 'h': return main_usage(stdout, 0);
        default: return main_usage(stderr, 2);
        }
    }
    if (transport == NULL || optind < argc || seeds == 0)
        return main_usage(stderr, 2);
    int status = main_ground(&ground, transport);
    return status != 0 ? status : main_run(&ground, only, all, seed, seeds);
}

/* SPDX-License-Identifier: BSD-3-Clause */
#include "worker/launch/member.h"

#include <stdio.h>
#include <string.h>

#include "transport/base/clock.h"
#include "worker/launch/seats.h"
#include "worker/launch/secret.h"

/* member_hear_address -- takes the line `listening ADDRESS` of a ps; when it was started again it says the same once more. */
static bool member_hear_address(void *context, const char *line, size_t n)
{
    static const char words[] = "listening ";
    struct member *member = context;
    size_t skip = sizeof(words) - 1;

    if (n <= skip || n - skip >= sizeof(member->address) || memcmp(line, words, skip) != 0)
        return false;
    if (member->address[0] != '\0')
        return strlen(member->address) == n - skip && memcmp(line + skip, member->address, n - skip) == 0;
    memcpy(member->address, line + skip, n - skip);
    member->address[n - skip] = '\0';
    return true;
}

/* member_listen -- the address that a ps is to listen on. */
static void member_listen(const struct member *member, const struct crew_plan *plan, char *out, size_t bytes)
{
    const struct hosts_entry *listen = &plan->listen;
    bool v6 = strchr(listen->host, ':') != NULL;
    unsigned port = listen->port == 0 ? 0 : listen->port + member->rank;

    if (member->address[0] != '\0')
        snprintf(out, bytes, "%s", member->address);
    else
        snprintf(out, bytes, "%s%s%s:%u", v6 ? "[" : "", listen->host, v6 ? "]" : "", port);
}

/* member_init -- see member.h. */
void member_init(struct member *member, bool server, unsigned rank)
{
    *member = (struct member){.server = server, .rank = rank, .start_at = CLOCK_NEVER};
    snprintf(member->child.name, sizeof(member->child.name), "%s %u", server ? "ps" : "worker", rank);
    member->child.out.fd = member->child.err.fd = -1;
    if (server) {
        member->child.out.taken = member_hear_address;
        member->child.out.context = member;
    }
}

/* member_start -- with what it has to know in its environment. */
int member_start(struct member *member, const struct crew_plan *plan, const char *hosts, struct sink *out,
                 struct sink *err)
{
    bool server = member->server;
    char *const server_argv[] = {(char *)(uintptr_t)plan->server, NULL};
    struct child_setting settings[KNOBS_MAX + 16];
    char task[16], workers[16], listen[HOSTS_ADDRESS_BYTES + 16], secret[SECRET_PATH_BYTES];
    const struct knob_row *row;
    size_t count = 0;

    snprintf(task, sizeof(task), "%u", member->rank);
    snprintf(workers, sizeof(workers), "%u", plan->workers);
    member_listen(member, plan, listen, sizeof(listen));
    for (size_t i = 0; (row = knob_row(i)) != NULL; i++)
        if (knob_given(plan->knobs, row->name))
            settings[count++] = (struct child_setting){row->environment, knob_text(plan->knobs, row->name)};
    settings[count++] = (struct child_setting){"STEPGATE_JOB_NAME", server ? "ps" : "worker"};
    settings[count++] = (struct child_setting){"STEPGATE_TASK_INDEX", task};
    settings[count++] = (struct child_setting){"STEPGATE_PS_HOSTS", hosts};
    settings[count++] = (struct child_setting){"STEPGATE_WORKERS", workers};
    settings[count++] = (struct child_setting){"STEPGATE_WORKER_HOSTS", NULL};
    settings[count++] = (struct child_setting){"STEPGATE_ADDRESS_FILE", NULL};
    settings[count++] = (struct child_setting){"STEPGATE_LISTEN", server ? listen : NULL};
    if (plan->secret >= 0) {
        secret_path(plan->secret, secret);
        settings[count++] = (struct child_setting){"STEPGATE_SECRET_FILE", secret};
    }
    struct child_start start = {.argv = server ? server_argv : plan->program,
                                .settings = settings,
                                .count = count,
                                .secret = plan->secret,
                                .live = !server && member->rank == 0 && out->terminal,
                                .out = out,
                                .err = err};
    if (!server)
        start.cpu_count = seats_of(plan->seats, member->rank, &start.cpus);
    return child_start(&member->child, &start);
}

/* member_is_drained -- see member.h. */
bool member_is_drained(const struct member *member, bool given_up)
{
    const struct stream *out = &member->child.out, *err = &member->child.err;

    return ((out->fd < 0 && err->fd < 0) || given_up) && !sink_is_full(out->sink) && !sink_is_full(err->sink);
}

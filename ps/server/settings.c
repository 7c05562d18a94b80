/* SPDX-License-Identifier: BSD-3-Clause */
#include "ps/server/settings.h"

#include <stdio.h>
#include <string.h>

#include "ps/mode/mode.h"
#include "ps/optimizer/rule.h"
#include "transport/base/error.h"

/* settings_listen -- the knob, or this ps's entry in the list; a missing port is 0. */
static int settings_listen(struct settings *s)
{
    const char *text = knob_text(&s->knobs, "listen");

    if (text == NULL || text[0] == 0) {
        if (s->number >= s->ps.count || !s->ps.entries[s->number].known)
            return error_set(STEPGATE_EINVAL, 0, "give --listen host:port, or this ps's entry in --ps-hosts",
                             "ps %u has no address to listen at", s->number);
        text = s->ps.entries[s->number].address;
    }
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool port = colon != NULL && (bracket == NULL || colon > bracket);
    snprintf(s->listen, sizeof(s->listen), "%s%s", text, port ? "" : ":0");
    return 0;
}

/* settings_numbers -- numbers and lists from the knobs. */
static int settings_numbers(struct settings *s)
{
    const char *text = knob_text(&s->knobs, "ps_hosts"), *secret = knob_text(&s->knobs, "secret_file");
    int status = hosts_parse("ps_hosts", text != NULL ? text : "", &s->ps);

    if (status != 0)
        return status;
    int role = knob_int(&s->knobs, "job_name");
    if (role != KNOB_ROLE_NONE && role != KNOB_ROLE_PS)
        return error_set(STEPGATE_EINVAL, 0, "give a ps --job-name ps", "this is a ps, but job_name says %s",
                         knob_text(&s->knobs, "job_name"));
    int workers = knobs_workers(&s->knobs);
    if (workers < 0)
        return workers;
    s->workers = (uint32_t)workers;
    s->number = (uint32_t)knob_int(&s->knobs, "task_index");
    s->lanes = (uint32_t)knob_int(&s->knobs, "lanes");
    s->kernels = optimizer_kind_of(knob_text(&s->knobs, "kernels"));
    if (s->kernels < 0)
        return error_set(STEPGATE_EINVAL, 0, "leave it at auto, or run where there are such instructions",
                         "kernels: this processor has no %s", knob_text(&s->knobs, "kernels"));
    if (s->ps.count == 0 && s->number != 0)
        return error_set(STEPGATE_EINVAL, 0, "give --ps-hosts with the address of every ps",
                         "no ps is named");
    if (s->ps.count > 0 && s->number >= s->ps.count)
        return error_set(STEPGATE_EINVAL, 0, "ranks are 0 .. number of ps - 1", "ps %u of a list of %zu",
                         s->number, s->ps.count);
    if (s->number != 0 && (!s->ps.entries[0].known || s->ps.entries[0].port == 0))
        return error_set(STEPGATE_EINVAL, 0, "give the address of ps 0 in --ps-hosts",
                         "ps %u does not know the address of ps 0", s->number);
    if (secret != NULL && secret[0] != 0)
        status = proof_load(secret, &s->secret);
    return status != 0 ? status : settings_listen(s);
}

/* settings_rewind -- whoever is to go back must have somewhere to go back to. */
static int settings_rewind(struct settings *s)
{
    const char *folder = knob_text(&s->knobs, "checkpoint"), *record = knob_text(&s->knobs, "record_sets");

    s->rewinds = knob_int(&s->knobs, "lost_ps") == KNOB_LOST_PS_REWIND;
    if (!s->rewinds)
        return 0;
    if (folder == NULL || folder[0] == 0)
        return error_set(STEPGATE_EINVAL, 0, "give a folder that all ps share: --checkpoint DIR",
                         "lost_ps is rewind, and there are no checkpoints to go back to");
    if (record != NULL && record[0] != 0)
        return error_set(STEPGATE_EINVAL, 0, "leave out --record-sets, or give --lost-ps fail",
                         "lost_ps is rewind, but a record of sets has each step once");
    return 0;
}

/* settings_shrinks -- a record does not say who was there. */
static int settings_shrinks(const struct settings *s)
{
    const char *record = knob_text(&s->knobs, "record_sets"), *replay = knob_text(&s->knobs, "replay_sets");

    if (knob_int(&s->knobs, "lost_worker") != MODE_LOST_SHRINK ||
        ((record == NULL || record[0] == 0) && (replay == NULL || replay[0] == 0)))
        return 0;
    return error_set(
        STEPGATE_EINVAL, 0, "leave out the sets, or give --lost-worker wait",
        "lost_worker is shrink, but a record of sets does not say how many workers each step had");
}

/* settings_start -- so many will do: of those that there are. */
static int settings_start(const struct settings *s)
{
    int64_t enough = knob_int(&s->knobs, "start_workers");

    if (enough <= (int64_t)s->workers)
        return 0;
    return error_set(STEPGATE_EINVAL, 0, "give --start-workers at most the number of workers",
                     "start_workers is %lld, and there are %u workers", (long long)enough, s->workers);
}

/* settings_read -- see settings.h. */
int settings_read(const struct knobs *knobs, struct settings *settings)
{
    int status = knobs_copy(knobs, &settings->knobs);

    if (status == 0)
        status = settings_numbers(settings);
    if (status == 0)
        status = settings_start(settings);
    if (status == 0)
        status = settings_shrinks(settings);
    return status == 0 ? settings_rewind(settings) : status;
}

/* settings_clear -- frees, and forgets the secret. */
void settings_clear(struct settings *settings)
{
    hosts_clear(&settings->ps);
    knobs_clear(&settings->knobs);
    explicit_bzero(&settings->secret, sizeof(settings->secret));
}

/* settings_shards -- without a list there is this one alone. */
uint32_t settings_shards(const struct settings *settings)
{
    return settings->ps.count > 0 ? (uint32_t)settings->ps.count : 1;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waste -- contributions that count for nothing: abandoned, dropped as not finite, stale. Where each is answered by a token at once nobody waits for
 * anybody, and a job in which all of them are like that would go round for ever: here it is noticed.
 */
#include <stdio.h>
#include <string.h>

#include "ps/shard/inside.h"
#include "stepgate/step.h"
#include "transport/base/clock.h"
#include "transport/base/error.h"

#define WASTE_NAMES_MAX 6     /* ranks that are named for one reason */
#define WASTE_WORDS_BYTES 320 /* for three reasons */

/* waste_of -- of a rank and for this reason (enum stepgate_verdict). */
static uint64_t waste_of(const struct shard_model *model, bool ever, uint32_t rank, int verdict)
{
    struct mode_counts counts;

    mode_wasted(model->shard->leads[model->number]->mode, rank, ever, &counts);
    switch (verdict) {
    case STEPGATE_VERDICT_NON_FINITE: return counts.non_finite;
    case STEPGATE_VERDICT_EMPTY: return counts.empty;
    default: return counts.stale;
    }
}

/* waste_reason -- how many for this reason, and whose; returns how many. */
static uint64_t waste_reason(const struct shard_model *model, bool ever, int verdict, const char *word,
                             char *text, size_t size)
{
    char names[WASTE_NAMES_MAX * 12 + 8] = "";
    uint64_t total = 0;
    uint32_t ranks = 0;
    size_t used = 0, at = strlen(text);

    for (uint32_t w = 0; w < model->board.workers; w++) {
        uint64_t n = waste_of(model, ever, w, verdict);
        total += n;
        if (n == 0 || ++ranks > WASTE_NAMES_MAX)
            continue;
        int length = snprintf(names + used, sizeof(names) - used, "%s%u", used > 0 ? ", " : "", w);
        used += length > 0 ? (size_t)length : 0;
    }
    if (ranks > WASTE_NAMES_MAX)
        snprintf(names + used, sizeof(names) - used, ", ...");
    if (total > 0)
        snprintf(text + at, size - at, "%s%llu %s (of worker %s)", at > 0 ? ", " : "",
                 (unsigned long long)total, word, names);
    return total;
}

/* shard_waste_words -- see inside.h. */
uint64_t shard_waste_words(const struct shard_model *model, bool ever, char *text, size_t size)
{
    uint64_t total = 0;

    text[0] = 0;
    total += waste_reason(model, ever, STEPGATE_VERDICT_NON_FINITE, "dropped as not finite", text, size);
    total += waste_reason(model, ever, STEPGATE_VERDICT_EMPTY, "abandoned or empty", text, size);
    total += waste_reason(model, ever, STEPGATE_VERDICT_STALE, "stale", text, size);
    return total;
}

/* waste_report -- one line, again and again: with step_timeout off nobody else says it. */
static void waste_report(struct shard_model *model, uint64_t now)
{
    const struct shard_config *config = &model->shard->config;
    char words[WASTE_WORDS_BYTES];

    model->waste_report_at =
        clock_after(now, config->stall_report_ms); /* it is not off, or nothing would be due */
    uint64_t total = shard_waste_words(model, false, words, sizeof(words));
    log_line(&config->log, LOG_WARN,
             "model %s, step %llu: not complete after %llu ms, meanwhile %llu contributions counted for "
             "nothing: %s",
             model->model->name, (unsigned long long)model->waste_next - 1,
             (unsigned long long)((now - model->waste_since) / CLOCK_MS), (unsigned long long)total, words);
}

/* waste_late -- nobody is late, and yet the step has lasted longer than anybody wants to wait. */
static void waste_late(struct shard_model *model, uint64_t now)
{
    char words[WASTE_WORDS_BYTES];
    uint64_t non_finite = 0, total = shard_waste_words(model, false, words, sizeof(words));
    int64_t waited = (int64_t)((now - model->waste_since) / CLOCK_MS);

    for (uint32_t w = 0; w < model->board.workers; w++)
        non_finite += waste_of(model, false, w, STEPGATE_VERDICT_NON_FINITE);
    error_set(STEPGATE_ESTEPTIME, 0,
              non_finite > 0 ? "lower the learning rate, clip the gradients with clip_norm, or look at the "
                               "data; step_timeout sets how long this may go on"
                             : "finish contributions instead of abandoning them; step_timeout sets how long "
                               "this may go on",
              "step %llu of model %s is not complete after %lld ms: meanwhile %llu contributions counted for "
              "nothing: %s",
              (unsigned long long)model->waste_next - 1, model->model->name, (long long)waited,
              (unsigned long long)total, words);
    error_step(model->waste_next - 1, waited);
    shard_abort(model->shard, now);
}

/* waste_begin -- the first one for the step that is awaited. */
static void waste_begin(struct shard_model *model, uint64_t step, uint64_t now)
{
    int64_t report = model->shard->config.stall_report_ms;

    model->waste_next = step + 1;
    model->waste_since = now;
    model->waste_report_at = clock_after(now, report > 0 ? report : -1);
}

/* shard_waste_watch -- what was for nothing before a step was taken did not keep it from being taken. While nobody contributes nobody waits. */
void shard_waste_watch(struct shard_model *model, uint64_t now)
{
    const struct mode *mode = model->shard->leads[model->number]->mode;
    int64_t timeout = model->shard->config.step_timeout_ms;

    if (model->shard->failed || mode_wasted_count(mode) == 0)
        return;
    if (model->waste_next != mode_step(mode) + 1)
        waste_begin(model, mode_step(mode), now);
    else if (timeout > 0 && now >= clock_after(model->waste_since, timeout))
        waste_late(model, now);
    else if (now >= model->waste_report_at)
        waste_report(model, now);
}

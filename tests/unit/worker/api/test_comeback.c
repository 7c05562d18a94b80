/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker goes without a word in the midst of a step, and another one comes under its rank, while ps with several lanes and the other workers go on in threads of theirs (lost_worker). */
#include "tests/unit/worker/api/crowd.h"

#define LIVES 3
#define LIFE 40 /* steps of each */

static const uint64_t sizes[] = {5000, 7, 300, 0};
static const char *const waits[] = {"lost_worker", "wait", NULL};
static const char *const shrinks[] = {"lost_worker", "shrink", NULL};
static const char *const fewer[] = {"replicas_to_aggregate", "2", NULL};

/* look -- every parameter is what the step says. */
static int look(struct crowd_worker *w, uint64_t step)
{
    const void *value = NULL;
    int status = stepgate_step_pull(w->model, STEPGATE_ALL, CROWD_MS, NULL);

    for (int v = 0; status == 0 && sizes[v] > 0; v++) {
        uint64_t read = step;
        status = stepgate_step_pull(w->model, v, CROWD_MS, &read);
        if (status == 0)
            status = stepgate_buffer_parameter(w->model, v, &value);
        for (uint64_t i = 0; status == 0 && i < sizes[v]; i += 97)
            if (((const float *)value)[i] != -(float)read) {
                print_error("worker %d, step %llu: element %llu of %d is %g\n", w->rank,
                            (unsigned long long)read, (unsigned long long)i, v,
                            (double)((const float *)value)[i]);
                status = -1;
            }
    }
    return status;
}

/* mortal -- a worker that trains for a while, hands in a part of a contribution, and is gone. */
static void *mortal(void *context)
{
    struct crowd_worker *w = context;
    struct stepgate_step_info info = {.size = sizeof(info)};
    void *gradient = NULL;

    w->status = stepgate_model_commit(w->model, CROWD_MS, NULL);
    for (int k = 0; w->status == 0 && k < LIFE / CROWD_SCALE; k++) {
        w->status = stepgate_step_begin(w->model, CROWD_MS, &info);
        if (w->rank == 0)
            atomic_store(&w->crowd->reached, info.step);
        if (w->status == 0)
            w->status = look(w, info.step);
        if (w->status == 0)
            w->status = crowd_ones(w);
        if (w->status == 0)
            w->status = stepgate_step_finish(w->model, 1);
    }
    if (w->status == 0)
        w->status = stepgate_step_begin(w->model, CROWD_MS, &info);
    if (w->status == 0)
        w->status = look(w, info.step);
    if (w->status == 0)
        w->status = stepgate_buffer_gradient(w->model, 0, &gradient);
    if (w->status == 0) {
        for (uint64_t i = 0; i < sizes[0]; i++)
            ((float *)gradient)[i] = 1000; /* it must never count */
        w->status = stepgate_step_push(w->model, 0);
    }
    stepgate_job_delete(&w->job);
    return NULL;
}

/* play -- one rank of three dies again and again. */
static void play(const char *const *knobs, const char *const *keys, int victim)
{
    struct crowd c;
    struct crowd_worker *w = &c.worker[victim];

    crowd_serve(&c, 3, 2, knobs);
    crowd_join(&c, keys, sizes);
    c.each = look;
    atomic_store(&c.steps, UINT64_MAX);
    for (int r = 0; r < c.workers; r++) {
        assert_int_equal(
            pthread_create(&c.worker[r].thread, NULL, r == victim ? mortal : crowd_run_worker, &c.worker[r]),
            0);
        c.worker[r].runs = true;
    }
    for (int life = 1; life <= LIVES; life++) {
        pthread_join(w->thread, NULL);
        assert_int_equal(w->status, 0);
        crowd_enter(&c, victim);
        if (life == LIVES)
            atomic_store(&c.steps, atomic_load(&c.reached) + 10);
        assert_int_equal(pthread_create(&w->thread, NULL, life == LIVES ? crowd_run_worker : mortal, w), 0);
        w->runs = true;
    }
    crowd_end(&c);
}

static void the_others_wait_for_it(void **state)
{
    (void)state;
    play(waits, NULL, 1);
}

static void also_for_worker_0(void **state)
{
    (void)state;
    play(waits, NULL, 0);
}

static void the_others_go_on_with_a_smaller_r(void **state)
{
    (void)state;
    play(shrinks, NULL, 2);
}

static void the_others_are_enough(void **state)
{
    (void)state;
    play(NULL, fewer, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_wait_for_it),
        cmocka_unit_test(also_for_worker_0),
        cmocka_unit_test(the_others_go_on_with_a_smaller_r),
        cmocka_unit_test(the_others_are_enough),
    };

    return crowd_main(tests);
}

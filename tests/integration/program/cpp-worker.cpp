/* SPDX-License-Identifier: BSD-3-Clause */
/* cpp-worker -- what a program in C++17 sees when something goes wrong. CASE is the argument; each error is one line of its own. Exit status 0: all came as it had to. */
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "stepgate/stepgate.h"

namespace
{

/* An error of the library as an exception. */
struct failure : std::runtime_error {
    explicit failure(const stepgate_error &last) : std::runtime_error(last.text), error(last)
    {
    }
    stepgate_error error;
};

int must(int rc)
{
    stepgate_error last{};

    last.size = sizeof last;
    if (rc < 0 && stepgate_error_last(&last) == 0)
        throw failure(last);
    return rc;
}

/* A worker with a model of one variable; whatever happens, it is deleted, which takes no longer than close_timeout. */
class worker
{
  public:
    explicit worker(uint64_t elements = 4)
    {
        stepgate_options *options = nullptr;

        must(stepgate_options_new(&options));
        std::unique_ptr<stepgate_options, void (*)(stepgate_options *)> owned(
            options, [](stepgate_options *one) { stepgate_options_delete(&one); });
        must(stepgate_options_from_env(options));
        try {
            must(stepgate_job_join(options, -1, &job));
            must(stepgate_model_new(job, "model", &model));
            must(stepgate_model_variable(model, "v", STEPGATE_TRAINED, STEPGATE_F32, 1, &elements, &id));
            must(stepgate_model_commit(model, -1, nullptr));
        } catch (...) {
            close();
            throw;
        }
    }
    ~worker()
    {
        close();
    }
    worker(const worker &) = delete;
    worker &operator=(const worker &) = delete;

    void close()
    {
        stepgate_model_delete(&model);
        stepgate_job_delete(&job);
    }
    uint64_t begin()
    {
        stepgate_step_info info{};

        info.size = sizeof info;
        must(stepgate_step_begin(model, -1, &info));
        return info.step;
    }
    void push()
    {
        void *gradient = nullptr;

        must(stepgate_buffer_gradient(model, id, &gradient));
        std::memset(gradient, 0, 4 * sizeof(float));
        must(stepgate_step_push(model, id));
    }
    void step()
    {
        begin();
        must(stepgate_step_pull(model, id, -1, nullptr));
        push();
        must(stepgate_step_finish(model, 1.0));
    }

    stepgate_job *job = nullptr;
    stepgate_model *model = nullptr;
    int id = -1;
};

/* fails -- runs what must fail with this code, and says how in one line */
void fails(int code, const char *when, const std::function<void()> &call)
{
    try {
        call();
    } catch (const failure &wrong) {
        const stepgate_error &error = wrong.error;
        std::printf("%s: %s, class %d, %s %d: %s; %s\n", when, stepgate_strerror(error.code),
                    stepgate_error_class(error.code),
                    error.role == STEPGATE_ROLE_PS       ? "ps"
                    : error.role == STEPGATE_ROLE_WORKER ? "worker"
                                                         : "nobody",
                    error.rank, error.text, error.remedy);
        if (error.code == code)
            return;
        throw std::runtime_error(std::string(when) + ": another code was expected");
    }
    throw std::runtime_error(std::string(when) + ": nothing went wrong");
}

void no_ps()
{
    fails(STEPGATE_EJOIN, "join", [] { worker alone; });
}

/* Worker 1 declares more elements than worker 0. */
void mismatch()
{
    const char *rank = getenv("STEPGATE_TASK_INDEX");
    uint64_t elements = rank != nullptr && std::strcmp(rank, "1") == 0 ? 5 : 4;

    fails(STEPGATE_EMISMATCH, "commit", [elements] { worker one(elements); });
}

/* Worker 1 is killed between push and finish; worker 0 waits for its contribution. */
void killed()
{
    worker one;

    one.step();
    if (stepgate_job_rank(one.job) == 1) {
        one.begin();
        one.push();
        std::raise(SIGKILL);
    }
    fails(STEPGATE_ELOST, "step", [&one] {
        for (;;)
            one.step();
    });
    fails(STEPGATE_ELOST, "begin", [&one] { one.begin(); });
    fails(STEPGATE_ELOST, "leave", [&one] { must(stepgate_job_leave(one.job, -1)); });
    stepgate_error first{};
    first.size = sizeof first;
    if (stepgate_job_error(one.job, &first) != -STEPGATE_ELOST)
        throw std::runtime_error("the job does not tell its first error");
}

void closed()
{
    worker one;

    one.step();
    must(stepgate_job_leave(one.job, -1));
    fails(STEPGATE_EENDED, "begin after leave", [&one] { one.begin(); });
    one.close();
    fails(STEPGATE_EINVAL, "begin after delete", [&one] { one.begin(); });
    fails(STEPGATE_EINVAL, "leave after delete", [&one] { must(stepgate_job_leave(one.job, -1)); });
    one.close();
}

void forked()
{
    worker one;

    one.step();
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        try {
            fails(STEPGATE_EFORKED, "begin in a child", [&one] { one.begin(); });
            fails(STEPGATE_EFORKED, "leave in a child", [&one] { must(stepgate_job_leave(one.job, -1)); });
        } catch (const std::exception &) {
            _exit(1);
        }
        one.close(); /* frees the child's copies, and does not touch the job */
        std::fflush(stdout);
        _exit(0);
    }
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        throw std::runtime_error("the child saw something else");
    one.step();
    must(stepgate_job_leave(one.job, -1));
}

} // namespace

int main(int argc, char **argv)
{
    const std::pair<const char *, void (*)()> cases[] = {
        {"no-ps", no_ps}, {"mismatch", mismatch}, {"killed", killed}, {"closed", closed}, {"forked", forked}};

    try {
        for (const auto &[name, run] : cases)
            if (argc == 2 && std::strcmp(argv[1], name) == 0) {
                run();
                std::printf("%s: as it had to be\n", name);
                return 0;
            }
    } catch (const std::exception &wrong) {
        std::fflush(stdout);
        std::fprintf(stderr, "cpp-worker: %s\n", wrong.what());
        return 1;
    }
    std::fprintf(stderr, "usage: cpp-worker no-ps|mismatch|killed|closed|forked\n");
    return 2;
}

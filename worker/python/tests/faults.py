#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""faults.py CASE [FOLDER] -- what a program in Python sees when something goes wrong. Says `seen` at the end of what it had to see."""
import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Callable

import numpy as np

import stepgate
from expect import raised
from stepgate import Code


def small(job: stepgate.Job, shape: tuple[int, ...] = (3,)) -> stepgate.Model:
    model = job.model("small", learning_rate=0.5)
    model.variable("w", shape, initial=1)
    model.variable("v", shape, initial=1)
    return model


def one_step(model: stepgate.Model) -> None:
    model.begin()
    model.pull()
    for variable in model.variables.values():
        variable.gradient[:] = variable.value
        variable.push()
    model.finish()


def killed() -> None:
    """Rank 1 dies between two pushes of step 2, the others learn who it was."""
    with stepgate.Job() as job:
        model = small(job)
        model.commit()
        one_step(model)
        one_step(model)
        if job.rank == 1:
            model.begin()
            model["w"].push()
            os.kill(os.getpid(), signal.SIGKILL)
        error = raised(stepgate.JobError, lambda: [one_step(model) for _ in range(3)])
        assert error.code == Code.ELOST and error.name == "STEPGATE_ELOST" and error.exit_status == 75, error
        assert error.role == stepgate.Role.WORKER and error.rank == 1 and "worker 1" in error.text and error.remedy, vars(error)
        assert str(error) == f"{error.text}: {error.remedy}"
        again = raised(stepgate.JobError, model.begin)
        assert again.code == Code.ELOST, again
        print("seen", flush=True)
        sys.exit(error.exit_status)


def differs() -> None:
    """Rank 1 has another shape."""
    with stepgate.Job() as job:
        error = raised(stepgate.JobError, small(job, (3 + job.rank,)).commit)
        assert error.code == Code.EMISMATCH and "w [4]" in error.text and error.remedy and error.exit_status == 1, vars(error)
        print("seen", flush=True)
        sys.exit(error.exit_status)


def nobody() -> None:
    """There is no ps."""
    error = raised(stepgate.Error, lambda: stepgate.Job(ps_hosts="127.0.0.1:9", workers=1, task_index=0, join_timeout="1s"))
    assert error.code == Code.EJOIN and "ps 0" in error.text and error.remedy, vars(error)
    late = raised(stepgate.JobError, lambda: stepgate.Job(ps_hosts="127.0.0.1:9", workers=1, task_index=0, timeout=0.3))
    assert late.code == Code.EJOIN and late.waited >= 0.3 and "ps 0" in late.text, vars(late)
    wrong = raised(stepgate.ArgumentError, lambda: stepgate.Job(ps_hostss="127.0.0.1:9"))
    assert wrong.code == Code.ENOENT and "ps_hosts" in str(wrong), wrong
    interrupted(lambda: stepgate.Job(ps_hosts="127.0.0.1:9", workers=1, task_index=0))
    print("seen", flush=True)


def interrupted(call: Callable[[], object]) -> None:
    """Ctrl-C ends a wait that nobody else would have ended for a minute or two."""
    begin = time.monotonic()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    raised(KeyboardInterrupt, call)
    assert time.monotonic() - begin < 30, "an interrupt came too late"
    timer.join()


def until(call: Callable[[], bool]) -> None:
    """Waits for what another process does."""
    begin = time.monotonic()
    while not call():
        assert time.monotonic() - begin < 30, "another process has not come so far"
        time.sleep(0.01)


def interrupts(folder: Path) -> None:
    """Every wait, and after it the job goes on as if nothing had been. Rank 1 comes late to each of them."""
    with stepgate.Job() as job:
        model = small(job)
        waits = itertools.count()

        def late(call: Callable[[], object]) -> None:
            seen = folder / f"wait-{next(waits)}"
            if job.rank == 0:
                interrupted(call)
                error = raised(stepgate.TimedOut, lambda: call(timeout=0.1))
                assert isinstance(error, TimeoutError) and error.code == Code.ETIMEOUT and error.waited >= 0.1, vars(error)
                assert "within 1 ms" not in error.text and "waiting for" in error.text, error
                seen.touch()
            else:
                until(seen.exists)

        late(model.commit)
        model.commit()
        late(job.barrier)
        job.barrier()
        one_step(model)
        if job.rank == 0:
            one_step(model)
            late(model.begin)
        else:
            late(model.begin)
            one_step(model)
        one_step(model)
        model.begin()
        model.pull()
        assert (model["w"].value == 0.125).all(), model["w"].value
    print("seen", flush=True)


def closed() -> None:
    """Nothing but an error comes of a job that is closed."""
    with stepgate.Job() as job:
        model = small(job)
        model.commit()
        one_step(model)
        model.begin()
        model.pull()
        value = model["w"].value
    for call in (model.begin, model.pull, model.finish, job.barrier, job.progress, model["w"].push, lambda: model["w"].gradient, lambda: job.rank,
                 lambda: job.stats, lambda: job.model("another")):
        error = raised(stepgate.ArgumentError, call)
        assert error.code == Code.ESTATE and "closed" in error.text, error
    job.close()
    assert (value == 0.5).all(), "a view outlives its job"
    print("seen", flush=True)


def forked() -> None:
    """The child of a fork is told so, and the parent goes on."""
    with stepgate.Job() as job:
        model = small(job)
        model.commit()
        one_step(model)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert raised(stepgate.ArgumentError, lambda: model.begin()).code == Code.EFORKED
                assert raised(stepgate.ArgumentError, model["w"].push).code == Code.EFORKED
                job.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0, "the child"
        for _ in range(10):
            one_step(model)
    print("seen", flush=True)


def misused() -> None:
    """Wrong arguments are exceptions, and change nothing."""
    with stepgate.Job() as job:
        model = job.model("m")
        assert raised(stepgate.ArgumentError, lambda: model.set("learning_rat", 1)).code == Code.ENOENT
        assert raised(stepgate.ArgumentError, lambda: model.set("learning_rate", "much")).code == Code.EINVAL
        raised(TypeError, lambda: model.variable("w", (2,), "int64"))
        w = model.variable("w", (2, 2))
        assert raised(stepgate.ArgumentError, lambda: model.variable("w", (2,))).code == Code.EALREADY
        assert raised(stepgate.ArgumentError, model.begin).code == Code.ESTATE
        table = model.variable("t", (4, 2), kind=stepgate.Kind.SPARSE, rows_max=2)
        model.commit()
        assert raised(stepgate.ArgumentError, w.push).code == Code.ESTATE
        device = raised(stepgate.Error, lambda: w.attach_dmabuf(stepgate.Use.PARAMETER, sys.stdin.fileno()))
        assert device.code == Code.ENOTSUP and "over shm" in device.text and device.remedy, vars(device)
        model.begin()
        model.pull()
        w.gradient[:] = 0
        w.push()
        assert raised(stepgate.ArgumentError, w.push).code == Code.EALREADY
        assert raised(stepgate.ArgumentError, model.finish).code == Code.ESTATE
        raised(ValueError, lambda: table.push_rows([1], np.zeros((1, 3), np.float32)))
        assert raised(stepgate.ArgumentError, lambda: table.push_rows([4], np.zeros((1, 2)))).code == Code.EINVAL
        raised(ValueError, lambda: table.pull_rows([1], np.zeros((1, 2))))
        table.absent()
        model.finish()
    print("seen", flush=True)


def ended() -> None:
    """A block that ends with an exception says no good-bye: the others do not wait. Nor do they end well: a good-bye to a job that has failed is an error, too."""
    try:
        with stepgate.Job() as job:
            model, rank = small(job), job.rank
            model.commit()
            one_step(model)
            if rank == 1:
                raise ValueError("a mistake in the script")
            one_step(model)
            error = raised(stepgate.JobError, model.begin)
            assert error.code == Code.ELOST and error.rank == 1, vars(error)
    except (ValueError, stepgate.JobError) as error:
        assert isinstance(error, ValueError) == (rank == 1) and job.closed, error
        print("seen", flush=True)


{name: case for name, case in globals().items() if callable(case)}[sys.argv[1]](*map(Path, sys.argv[2:]))

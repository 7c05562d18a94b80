#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fits y = 3 a - 2 b + 1 with numpy, and looks at everything on the way: values, views, slots, snapshots, counters, sparse rows, values that are assigned or a worker's own."""
import sys

import numpy as np

import stepgate
from stepgate import Kind

STEPS = 60


def points(step: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng((step, rank))
    x = np.column_stack([draw.standard_normal((16, 2)), np.ones(16)])
    return x, x @ [3, -2, 1]


def gradient(w: np.ndarray, step: int, rank: int) -> np.ndarray:
    x, y = points(step, rank)
    return x.T @ (x @ w - y) / len(y)


def alone(workers: int) -> tuple[np.ndarray, np.ndarray]:
    """What one process makes of it."""
    w, momentum = np.array([0.5, 0.5, 0.5]), np.zeros(3)
    for step in range(STEPS):
        momentum = 0.5 * momentum + sum(gradient(w, step, rank) for rank in range(workers)) / workers
        w = w - 0.2 * momentum
    return w, momentum


def declare(job: stepgate.Job) -> stepgate.Model:
    model = job.model("line", optimizer="momentum", momentum=0.5, learning_rate=0.2)
    model.variable("w", (3,), "float64", initial=0.5 if job.rank == 0 else -7)
    model.variable("table", (5, 2), kind=Kind.SPARSE, rows_max=2, row_mean="replicas")
    model.variable("seen", (), kind=Kind.ASSIGNED, assign="mean")
    model.variable("own", (2,), "float16", Kind.AUX)
    info = model.commit()
    assert info.step == 0 and not info.restored, "a fresh job"
    return model


def train(job: stepgate.Job, model: stepgate.Model) -> None:
    w, table, seen, own = (model[name] for name in ("w", "table", "seen", "own"))
    while (info := model.begin()).step < STEPS:
        assert info.verdict == (stepgate.Verdict.APPLIED if info.step else stepgate.Verdict.NONE), info.verdict
        model.pull()
        if info.step == 0:
            assert (w.value == 0.5).all(), "worker 0's initial value is not what everybody has"
        w.gradient[:] = gradient(w.value, info.step, job.rank)
        w.push()
        table.push_rows([job.rank, 4], np.array([[1, 2], [3, 4]]))
        seen.gradient[...] = job.rank + info.step
        seen.push()
        own.gradient[:] = job.rank
        own.push()
        model.finish()


def look(job: stepgate.Job, model: stepgate.Model) -> None:
    w, table, seen, own = (model[name] for name in ("w", "table", "seen", "own"))
    model.pull()
    expected, momentum = alone(job.size)
    assert np.abs(w.value - expected).max() < 1e-12, (w.value, expected)
    assert np.abs(w.value - [3, -2, 1]).max() < 1e-3, w.value
    assert seen.value == STEPS - 1 + (job.size - 1) / 2, seen.value
    own.pull()
    assert (own.value == job.rank).all() and own.value.dtype == np.float16, own.value
    rows = table.pull_rows([4, 0, 4])
    assert rows.shape == (3, 2) and (rows[0] == rows[2]).all() and rows[0, 0] < 3 * rows[1, 0] < 0, rows
    assert model.slots() == ["momentum"] and np.abs(w.slot("momentum")[0] - momentum).max() < 1e-12, w.slot("momentum")
    copies, step = model.snapshot(["w", "seen"])
    assert step == STEPS and (copies["w"] == w.value).all() and copies["seen"] == seen.value, (copies, step)
    assert model.contributions(job.rank).accepted == STEPS, "contributions"
    if job.rank == 0:
        watch(w.value)
    stats = job.stats
    assert stats.steps == STEPS + 1 and stats.bytes_copied <= STEPS * 2 * 16 + 1000, (stats.steps, stats.bytes_copied)
    try:
        w.value[0] = 1
        raise AssertionError("a value of the ps can be written")
    except ValueError:
        pass


def own_memory(job: stepgate.Job) -> None:
    """Arrays of the program's own, for the gradient and the value of another model."""
    model = job.model("mine", learning_rate=1)
    w = model.variable("w", (2, 3), initial=1)
    model.commit()
    gradient, value = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    w.attach(stepgate.Use.GRADIENT, gradient)
    w.attach(stepgate.Use.PARAMETER, value)
    for step in range(3):
        assert model.begin().step == step
        model.pull()
        assert (value == 1 - step / 4).all() and w.idle, (step, value)
        gradient[:] = 0.25
        w.push()
        model.finish()
    model.begin()
    w.pull()
    assert (value == 0.25).all() and np.shares_memory(value, w.value), value
    model.abandon()
    w.detach(stepgate.Use.GRADIENT)
    assert not np.shares_memory(gradient, w.gradient)
    try:
        w.attach(stepgate.Use.GRADIENT, np.zeros((3, 2), np.float32).T)
        raise AssertionError("an array that is not contiguous")
    except ValueError:
        pass


def watch(expected: np.ndarray) -> None:
    """An observer of the same job reads what the workers have."""
    with stepgate.Job(job_name="observer") as observer:
        assert observer.role == stepgate.Role.OBSERVER and observer.rank == -1
        model = observer.attach("line")
        assert list(model.variables) == ["w", "table", "seen", "own"] and model["w"].shape == (3,), model.variables
        assert model.pull() == STEPS and (model["w"].value == expected).all(), model["w"].value


def main() -> int:
    lines: list[str] = []
    options = stepgate.Options(log=lambda level, line: lines.append(f"{level.name} {line}"))
    rest = options.take(["--own", "flag", *sys.argv[1:], "--join-timeout=20s"])
    assert rest[:2] == ["--own", "flag"] and options["join_timeout"] == "20s" and options.seconds("join_timeout") == 20, rest
    assert {"name": "join_timeout", "fallback": "120s"}.items() <= {k["name"]: k for k in stepgate.knobs()}["join_timeout"].items(), "knobs"
    with stepgate.Job(options=options) as job:
        assert job.role == stepgate.Role.WORKER and job.transport == "shm" and 0 <= job.rank < job.size and job.servers == 1
        model = declare(job)
        train(job, model)
        look(job, model)
        own_memory(job)
        value = model["w"].value
        job.barrier()
    assert job.closed and np.abs(value - [3, -2, 1]).max() < 1e-3, "a view must outlive a job that was left"
    assert any("update strict" in line for line in lines), lines
    return 0


sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kvstore.py CASE... -- the rules of docs/kvstore.md, each a case: stores of one job, and what they must hold by MXNet's rules, computed here with numpy."""
import os
import signal
import sys
import time
from typing import Callable, Iterator

import numpy as np
from expect import raised

import stepgate
import stepgate.kvstore
from stepgate import Code
from stepgate.kvstore import KVStore, RowSparse

SHAPE = (3, 4)


def noise(*seed: int, shape: tuple[int, ...] = SHAPE, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def full(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.full(SHAPE, value, dtype)


def order(kv: KVStore, keys: list) -> list:
    """Another one for each worker."""
    return keys[kv.rank:] + keys[:kv.rank] if kv.rank < len(keys) else keys[::-1]


def total(kv: KVStore, of: Callable[[int], np.ndarray]) -> np.ndarray:
    """What all workers push, added in the order of ranks."""
    out = of(0)
    for rank in range(1, kv.num_workers):
        out = out + of(rank)
    return out


def near(ours: object, theirs: np.ndarray, limit: float = 1e-6) -> None:
    worst = np.abs(np.asarray(ours, np.float64) - theirs).max()
    assert worst <= limit * max(1, np.abs(theirs).max()), f"differs by {worst}"


def init_takes_the_value_of_worker_0(kv: KVStore) -> None:
    kv.init(["a", "b"], [noise(kv.rank), full(kv.rank + 5, np.float64)])
    kv.init("c", full(kv.rank + 7, np.float16))
    out = [full(-1), full(-1, np.float64)]
    kv.pull(["a", "b"], out=out)
    assert (out[0] == noise(0)).all() and (out[1] == 5).all() and (kv.pull("c") == 7).all(), out


def keys_come_in_any_order(kv: KVStore) -> None:
    keys = [3, 20, 1, 100]
    for key in order(kv, keys):
        kv.init(key, full(key))
    for turn in range(3):
        for key in order(kv, keys):
            kv.push(key, full(key * (kv.rank + 1) + turn))
        for key in reversed(order(kv, keys)):
            expected = total(kv, lambda rank: full(key * (rank + 1) + turn))
            assert (kv.pull(key) == expected).all(), (key, kv.pull(key), expected)


def keys_may_be_of_any_shape(kv: KVStore) -> None:
    kv.init(["scalar", "cube"], [np.float64(2), noise(1, shape=(2, 1, 5))])
    kv.push(["scalar", "cube"], [kv.rank + 0.5, noise(kv.rank, shape=(2, 1, 5))])
    scalar, cube = kv.pull(["scalar", "cube"])
    assert scalar.shape == () and scalar == total(kv, lambda rank: np.float64(rank + 0.5)), scalar
    near(cube, total(kv, lambda rank: noise(rank, shape=(2, 1, 5), dtype=np.float64)))


def keys_may_be_initialized_late(kv: KVStore) -> None:
    """A worker that is ahead waits for the others, with a deadline, when it wants the value."""
    kv.init("a", full(1))
    if kv.rank == 0:
        kv.init("b", full(2))
        kv.push(["a", "b"], [full(3), full(4)])
        if kv.num_workers > 1:
            assert raised(stepgate.TimedOut, lambda: kv.pull("b", timeout=0.1)).waited >= 0.1
    else:
        kv.push("a", full(3))
    assert (kv.pull("a") == 3 * kv.num_workers).all()
    kv.barrier()
    if kv.rank != 0:
        kv.init("b", full(5))
        kv.push("b", full(4))
    assert (kv.pull("b") == 4 * kv.num_workers).all()


def pull_before_push_reads_what_is_there(kv: KVStore) -> None:
    kv.init("a", full(2))
    assert (kv.pull("a") == 2).all() and (kv.pull("a") == 2).all()
    kv.push("a", full(1))
    assert (kv.pull("a") == kv.num_workers).all() and (kv.pull("a") == kv.num_workers).all()


def without_an_optimizer_the_sum_is_the_value(kv: KVStore) -> None:
    kv.init("a", full(100))
    for step in range(4):
        kv.push("a", noise(step, kv.rank))
        value = kv.pull("a")
        near(value, total(kv, lambda rank: noise(step, rank).astype(np.float64)), 4e-7)
        if kv.num_workers == 2:  # a power of two: nothing is rounded but the sum
            assert (value == noise(step, 0) + noise(step, 1)).all(), step


def sums_are_exact_where_they_can_be(kv: KVStore) -> None:
    kv.init("halves", full(0, np.float16))
    kv.init("double", full(0, np.float64))
    kv.set_optimizer("sgd", learning_rate=-1, rescale_grad=0.125)
    kv.push(["halves", "double"], [[full(40000, np.float16)] * 2, full(1 / 3, np.float64)])
    halves, double = kv.pull(["halves", "double"])
    assert halves.dtype == np.float16 and (halves == np.float16(10000 * kv.num_workers)).all(), halves  # 80000 each: in float16 that is infinite
    near(double, full(kv.num_workers / 24, np.float64), 1e-15)


def pull_waits_for_every_worker(kv: KVStore) -> None:
    kv.init("a", full(0))
    kv.pull("a")  # everybody is there
    last = kv.num_workers - 1
    if kv.rank != last:
        kv.push("a", full(kv.rank + 1))
        late = raised(stepgate.TimedOut, lambda: kv.pull("a", timeout=0.1))
        assert late.waited >= 0.1 and "no token" in late.text, vars(late)
    kv.barrier()
    if kv.rank == last:
        kv.push("a", full(kv.rank + 1))
    assert (kv.pull("a") == kv.num_workers * (kv.num_workers + 1) / 2).all()


def push_waits_for_nobody(kv: KVStore) -> None:
    """Each push of a key is a round of it, whatever the order of keys, and the array that was pushed is the caller's again."""
    keys = ["a", "b", "c"]
    kv.set_optimizer("sgd", learning_rate=-2)
    kv.init(keys, [full(1)] * 3)
    pushed = full(0)
    for key in order(kv, keys):
        for turn in range(3):
            pushed[:] = kv.rank + 1 + turn
            kv.push(key, pushed)
            pushed[:] = np.nan
    expected = 1 + 2 * sum(rank + 1 + turn for rank in range(kv.num_workers) for turn in range(3))
    for key in order(kv, keys):
        assert (kv.pull(key) == expected).all(), (key, kv.pull(key), expected)


def keys_go_on_independently(kv: KVStore) -> None:
    kv.init(["often", "rarely"], [full(0), full(50)])
    for turn in range(4):
        kv.push("often", full(turn))
        assert (kv.pull("often") == turn * kv.num_workers).all()
    assert (kv.pull("rarely") == 50).all()
    kv.push("rarely", full(1))
    assert (kv.pull("rarely") == kv.num_workers).all() and (kv.pull("often") == 3 * kv.num_workers).all()


def devices_are_added(kv: KVStore) -> None:
    """A list of values of a key, and a key that is there twice; a pull fills a list of arrays."""
    kv.init(["a", "b"], [full(0), full(0)])
    parts = [noise(kv.rank, device) for device in range(3)]
    kv.push(["a", "b", "b"], [parts, parts[0], parts[1:]])
    outs = [[full(0), full(0, np.float64)], full(0)]
    kv.pull(["a", "b"], out=outs)
    expected = total(kv, lambda rank: sum(noise(rank, device).astype(np.float64) for device in range(3)))
    near(outs[0][0], expected, 1e-6)
    assert (outs[0][0] == outs[0][1]).all() and (outs[0][0] == outs[1]).all(), outs


def table(kv: KVStore) -> np.ndarray:
    kv.init("table", RowSparse(noise(1, shape=(4, 2)), [7, 1, 3, 9], shape=(10, 2)))
    expected = np.zeros((10, 2), np.float32)
    expected[[7, 1, 3, 9]] = noise(1, shape=(4, 2))
    return expected


def rows_are_pulled_once_each_and_in_order(kv: KVStore) -> None:
    expected = table(kv)
    got = kv.row_sparse_pull("table", row_ids=[9, 0, 7, 9, 0])
    assert list(got.indices) == [0, 7, 9] and got.shape == (10, 2) and (got.data == expected[[0, 7, 9]]).all() and (got.dense()[[0, 7, 9]] == expected[[0, 7, 9]]).all(), got
    outs = [RowSparse(np.zeros((0, 2)), []), RowSparse(np.zeros((1, 2)), [0])]
    assert kv.row_sparse_pull("table", out=outs, row_ids=[np.array([[1, 3], [3, 1]]), [5]]) == outs
    assert list(outs[0].indices) == [1, 3] and (outs[0].data == expected[[1, 3]]).all() and list(outs[1].indices) == [5] and (outs[1].data == 0).all(), outs
    kv.init("other", RowSparse(noise(2, shape=(1, 3)), [4], shape=(5, 3)))
    both = kv.row_sparse_pull(["table", "other"], row_ids=[[1], [4, 0]])
    assert (both[0].data == expected[1]).all() and (both[1].data[1] == noise(2, shape=(1, 3))).all() and (both[1].data[0] == 0).all(), both


def rows_of_all_workers_are_added(kv: KVStore) -> None:
    """Only rows that somebody pushed change: without an optimizer to their sum; with one they are updated."""
    expected = table(kv)

    def pushed(rank: int) -> np.ndarray:
        out = np.zeros((10, 2), np.float32)
        np.add.at(out, [rank, 8, rank], [[1, 2], [3, 4], [5, 6 + rank]])
        return out

    def push() -> None:  # of two devices, rows more than once
        kv.push("table", [RowSparse([[1., 2.], [3., 4.]], np.array([kv.rank, 8], np.uint64)), RowSparse([[5., 6. + kv.rank]], [kv.rank])])

    touched = [*range(kv.num_workers), 8]
    push()
    expected[touched] = total(kv, pushed)[touched]
    assert (kv.row_sparse_pull("table", row_ids=range(10)).data == expected).all()
    kv.set_optimizer("sgd", learning_rate=0.5, rescale_grad=0.5)
    for _ in range(2):
        push()
        expected -= 0.25 * total(kv, pushed)
    near(kv.row_sparse_pull("table", row_ids=range(10)).data, expected)
    kv.push("table", RowSparse(np.zeros((0, 2)), []))  # nothing, which is a round all the same
    near(kv.row_sparse_pull("table", row_ids=range(10)).data, expected)


def run(kv: KVStore, name: str, formula: Callable[[np.ndarray, np.ndarray], np.ndarray], **parameters: float) -> None:
    """An optimizer of the ps, and what MXNet documents of it."""
    kv.set_optimizer(name, rescale_grad=0.5, **parameters)
    kv.init("w", noise(9, dtype=np.float64))
    w = noise(9, dtype=np.float64)
    for step in range(6):
        kv.push("w", noise(step, kv.rank, dtype=np.float64))
        w = formula(w, 0.5 * total(kv, lambda rank: noise(step, rank, dtype=np.float64)))
        near(kv.pull("w"), w, 1e-12)


def optimizer_sgd_is_that_of_mxnet(kv: KVStore) -> None:
    state = [np.zeros(SHAPE)]

    def formula(w: np.ndarray, g: np.ndarray) -> np.ndarray:
        state[0] = 0.9 * state[0] - 0.1 * (np.clip(g, -0.7, 0.7) + 0.01 * w)
        return w + state[0]

    run(kv, "sgd", formula, learning_rate=0.1, momentum=0.9, wd=0.01, clip_gradient=0.7)


def optimizer_sgd_without_momentum_is_that_of_mxnet(kv: KVStore) -> None:
    run(kv, "sgd", lambda w, g: w - 0.01 * (g + 0.3 * w), momentum=0, wd=0.3, clip_gradient=-1)  # the rate is 0.01 unless it is given


def optimizer_nag_is_that_of_mxnet(kv: KVStore) -> None:
    state = [np.zeros(SHAPE)]

    def formula(w: np.ndarray, g: np.ndarray) -> np.ndarray:
        g = g + 0.01 * w
        state[0] = 0.8 * state[0] + g
        return w - 0.1 * (g + 0.8 * state[0])

    run(kv, "nag", formula, learning_rate=0.1, momentum=0.8, wd=0.01)


def optimizer_adam_is_that_of_mxnet(kv: KVStore) -> None:
    m, v, t = np.zeros(SHAPE), np.zeros(SHAPE), 0

    def formula(w: np.ndarray, g: np.ndarray) -> np.ndarray:
        nonlocal m, v, t
        t += 1
        g = g + 0.01 * w
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - 0.001 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)

    run(kv, "adam", formula, wd=0.01, clip_gradient=None)


def optimizer_may_come_after_the_first_rounds(kv: KVStore) -> None:
    """The value stays, and what the optimizer remembers starts anew."""
    kv.init(["a", "b"], [full(10), full(20)], together=True)
    kv.init("c", full(30))
    kv.pull("a")
    kv.set_optimizer("sgd", learning_rate=1, momentum=0.5)
    for _ in range(2):
        kv.push(["a", "b", "c"], [full(1)] * 3)
    n = kv.num_workers
    assert [kv.pull(key)[0, 0] for key in "abc"] == [10 - 2.5 * n, 20 - 2.5 * n, 30 - 2.5 * n], kv.pull("a")
    kv.set_optimizer("sgd", learning_rate=1, momentum=0.5)
    kv.push(["c", "b", "a"], [full(1)] * 3)
    assert [kv.pull(key)[0, 0] for key in "abc"] == [10 - 3.5 * n, 20 - 3.5 * n, 30 - 3.5 * n], kv.pull("a")


def keys_together_are_pushed_equally_often(kv: KVStore) -> None:
    kv.init(order(kv, ["a", "b", "c"]), [full(0)] * 3, together=True)
    for turn in range(2):
        for key in order(kv, ["a", "b"]):
            kv.push(key, full(kv.rank + turn))
        error = raised(stepgate.ArgumentError, lambda: kv.pull("a"))
        assert error.code == Code.ESTATE and "'c'" in error.text and error.remedy, error
        assert (kv.pull("c") == turn * 7 * kv.num_workers).all(), "c was not pushed in this round, and is as it was"
        kv.push("c", full(7 * (turn + 1)))
        expected = total(kv, lambda rank: full(rank + turn))
        assert (kv.pull("a") == expected).all() and (kv.pull("b") == expected).all(), turn


def pushpull_is_both(kv: KVStore) -> None:
    kv.init(["a", "b"], [full(0), full(0)])
    out = full(0)
    kv.pushpull("a", full(2), out=out, priority=-3)
    assert (out == 2 * kv.num_workers).all() and (kv.pushpull("b", full(3)) == 3 * kv.num_workers).all()


def broadcast_is_init_and_pull(kv: KVStore) -> None:
    outs = [full(-1), full(-1)]
    kv.broadcast("a", full(kv.rank + 3), out=outs)
    assert (outs[0] == 3).all() and (outs[1] == 3).all() and (kv.pull("a") == 3).all()


def barrier_lets_nobody_go_before_all_are_there(kv: KVStore) -> None:
    """Rounds of others still go on while somebody waits in it."""
    kv.init("a", full(0))
    if kv.rank == 0:
        if kv.num_workers > 1:
            assert raised(stepgate.TimedOut, lambda: kv.barrier(timeout=0.1)).waited >= 0.1
        kv.push("a", full(1))
        kv.push("a", full(2))  # is handed in from within the barrier
    else:
        kv.push("a", full(1))
        kv.push("a", full(2))
        if kv.rank == kv.num_workers - 1:
            kv.pull("a")
    kv.barrier()
    assert (kv.pull("a") == 2 * kv.num_workers).all()


def async_pushes_count_at_once(kv: KVStore) -> None:
    """Each push alone; who pushes sees his own, and in the end everybody sees all."""
    kv.set_optimizer("sgd", learning_rate=-1)
    kv.init(["a", "turn"], [full(0), full(0)])
    kv.init("rows", RowSparse(np.zeros((0, 2), np.float32), [], shape=(8, 2)))
    if kv.rank == 0:  # nobody else pushes
        for turn in range(1, 6):
            kv.push("turn", full(1))
            assert (kv.pull("turn") == turn).all() and (kv.pull("turn") == turn).all(), turn
    kv.barrier()
    for turn in range(10):
        kv.push("a", full(kv.rank + 1))
        kv.push("rows", RowSparse(np.ones((1, 2)), [kv.rank]))
        assert (kv.pull("a") >= (turn + 1) * (kv.rank + 1)).all(), turn
    kv.pull("a"), kv.row_sparse_pull("rows", row_ids=[0])
    kv.barrier()
    n = kv.num_workers
    assert (kv.pull("a") == 10 * n * (n + 1) / 2).all(), kv.pull("a")
    rows = kv.row_sparse_pull("rows", row_ids=range(8)).data
    assert (rows == np.array([[10.]] * n + [[0.]] * (8 - n))).all(), rows


def async_needs_an_optimizer(kv: KVStore) -> None:
    kv.init("a", full(4))
    assert (kv.pull("a") == 4).all()
    error = raised(stepgate.ArgumentError, lambda: kv.push("a", full(1)))
    assert error.code == Code.ESTATE and "set_optimizer" in error.remedy, error
    kv.set_optimizer("sgd", learning_rate=-1)
    kv.push("a", full(1))
    kv.pull("a")
    kv.barrier()
    assert (kv.pull("a") == 4 + kv.num_workers).all(), kv.pull("a")


def async_changes_of_the_optimizer_lose_nothing(kv: KVStore) -> None:
    """Worker 0, who is there first, does not take the value before the others have pushed."""
    kv.set_optimizer("sgd", learning_rate=-1)
    kv.init("a", full(0))
    kv.pull("a")
    if kv.rank != 0:
        time.sleep(0.1)
        kv.push("a", full(1))
    kv.set_optimizer("sgd", learning_rate=-100)
    kv.push("a", full(1))
    kv.pull("a")
    kv.barrier()
    assert (kv.pull("a") == kv.num_workers - 1 + 100 * kv.num_workers).all(), kv.pull("a")


def mistakes_are_refused_and_change_nothing(kv: KVStore) -> None:
    def refused(code: Code, word: str, call: Callable[[], object]) -> None:
        error = raised(stepgate.ArgumentError, call)
        assert error.code == code and word in str(error), (str(error), word)

    kv.init(["a", "b"], [full(5), full(6)])
    kv.init("rows", RowSparse(np.ones((1, 2), np.float32), [2], shape=(6, 2)), rows_max=2)
    refused(Code.ENOENT, "'x'", lambda: kv.pull("x"))
    refused(Code.ENOENT, "'x'", lambda: kv.row_sparse_pull("x", row_ids=[1]))
    refused(Code.ENOENT, "'x'", lambda: kv.push(["a", "x"], [full(1), full(1)]))
    refused(Code.EALREADY, "'a'", lambda: kv.init("a", full(1)))
    refused(Code.EALREADY, "'new'", lambda: kv.init(["new", "new"], [full(1), full(1)]))
    refused(Code.EINVAL, "all str or all int", lambda: kv.init(7, full(1)))
    refused(Code.EINVAL, "2 keys", lambda: kv.push(["a", "b"], [full(1)]))
    for wrong in (np.zeros(3), np.zeros(SHAPE, complex), [full(1), np.zeros((4, 3))], RowSparse([[1., 2.]], [1])):
        refused(Code.EINVAL, "'a'", lambda: kv.push(["b", "a"], [full(1), wrong]))
    for wrong in (np.zeros(3), np.zeros(SHAPE, int), [full(1), 3], RowSparse([[1., 2.]], [1])):
        refused(Code.EINVAL, "'a'", lambda: kv.pull(["b", "a"], out=[full(1), wrong]))
    refused(Code.EINVAL, "row-sparse", lambda: kv.pull("rows"))
    refused(Code.EINVAL, "call pull", lambda: kv.row_sparse_pull("a", row_ids=[1]))
    refused(Code.EINVAL, "row_ids", lambda: kv.row_sparse_pull("rows"))
    refused(Code.EINVAL, "no row 6", lambda: kv.row_sparse_pull("rows", row_ids=[0, 6]))
    refused(Code.EINVAL, "no row -1", lambda: kv.push("rows", RowSparse([[1., 2.]], [-1])))
    refused(Code.EINVAL, "at most 2", lambda: kv.push("rows", RowSparse(np.ones((3, 2)), [1, 2, 3])))
    refused(Code.EINVAL, "push a RowSparse", lambda: kv.push("rows", np.ones((6, 2))))
    refused(Code.EINVAL, "[2]", lambda: kv.push("rows", RowSparse(np.ones((1, 3)), [1])))
    refused(Code.EINVAL, "1 indices", lambda: RowSparse(np.ones((2, 2)), [1]))
    refused(Code.EINVAL, "integers", lambda: RowSparse(np.ones((1, 2)), [1.5]))
    refused(Code.EINVAL, "shape", lambda: kv.init("new", RowSparse(np.ones((1, 2)), [1])))
    raised(TypeError, lambda: kv.init("new", np.zeros(3, np.int64)))
    refused(Code.ENOTSUP, "formula", lambda: kv.set_optimizer("rmsprop"))
    refused(Code.ENOTSUP, "clip_value", lambda: kv.set_optimizer("adam", wd=0.1, clip_gradient=1))
    refused(Code.ENOTSUP, "dist_async", lambda: kv.set_optimizer("sgd", update="async"))
    refused(Code.EINVAL, "rescale_grad", lambda: kv.set_optimizer("sgd", rescale_grad="1"))
    refused(Code.ENOTSUP, "set_optimizer", lambda: kv.set_updater(lambda key, g, w: None))
    refused(Code.ENOTSUP, "float16", lambda: kv.set_gradient_compression({"type": "2bit"}))
    refused(Code.ENOTSUP, "dist_sync", lambda: stepgate.kvstore.create("local"))
    refused(Code.EINVAL, "workers", lambda: stepgate.kvstore.create("dist_sync", job=kv.job, workers=3))
    raised(AttributeError, lambda: kv.nothing)
    kv.job.options["lost_ps"] = "rewind"
    refused(Code.ENOTSUP, "lost_ps=fail", lambda: stepgate.kvstore.create("dist_sync", job=kv.job, name="another"))
    kv.job.options["lost_ps"] = "fail"
    assert (kv.pull("a") == 5).all() and (kv.pull("b") == 6).all() and list(kv.row_sparse_pull("rows", row_ids=[2]).data[0]) == [1, 1]
    kv.set_optimizer("sgd", lr_scheduler=3)
    refused(Code.ENOENT, "lr_scheduler", lambda: kv.pull("a"))
    kv.set_optimizer("rmsprop", formula="torch")
    assert (kv.pull("a") == 5).all()


def closed() -> None:
    """What was pushed is handed in before the job is left."""
    with stepgate.kvstore.create("dist_sync") as kv:
        assert kv.type == "dist_sync" and 0 <= kv.rank < kv.num_workers
        kv.init("a", full(0))
        for turn in range(3):
            kv.push("a", full(turn + kv.rank))
        if kv.rank == kv.num_workers - 1:
            assert (kv.pull("a") == total(kv, lambda rank: full(2 + rank))).all(), kv.pull("a")
    assert kv.job.closed
    kv.close()


def closed_incomplete() -> None:
    """Keys together of which one was not pushed: the store says so, and the job is not left as if all were well."""
    kv = stepgate.kvstore.create("dist_sync")
    kv.init(["a", "b"], [full(0), full(0)], together=True)
    kv.push("a", full(1))
    error = raised(stepgate.ArgumentError, kv.close)
    assert error.code == Code.ESTATE and "'b'" in error.text and kv.job.closed, error


def differs() -> None:
    """Worker 1 has another shape."""
    kv = stepgate.kvstore.create("dist_sync")
    kv.init("a", full(0)[:2 + kv.rank])
    error = raised(stepgate.JobError, lambda: kv.pull("a"))
    assert error.code == Code.EMISMATCH and "[3, 4]" in error.text and "[2, 4]" in error.text, error.text


def differs_in_optimizer() -> None:
    kv = stepgate.kvstore.create("dist_sync")
    kv.set_optimizer("sgd", learning_rate=1 + kv.rank)
    kv.init("a", full(0))
    error = raised(stepgate.JobError, lambda: kv.pull("a"))
    assert error.code == Code.EMISMATCH and "learning_rate" in error.text, error.text


def many() -> None:
    """More keys than models fit into a job, one for each and together."""
    keys = list(range(300))
    with stepgate.kvstore.create("dist_sync") as kv:
        kv.init(keys, [np.float32(key) for key in keys], together=True)
        kv.push(keys, [np.float32(key) for key in keys])
        assert kv.pull(keys) == [key * kv.num_workers for key in keys]
        other = stepgate.kvstore.create("dist_sync", job=kv.job, name="other")
        other.init(keys, [np.float32(key) for key in keys])
        error = raised(stepgate.ArgumentError, lambda: other.pull(0))
        assert "at most 256 models" in error.text and "together" in error.remedy, str(error)


def kept() -> None:
    """In checkpoints: values and the optimizer's state, of keys that have come to different rounds. A second job goes on from there."""
    with stepgate.kvstore.create("dist_sync") as kv:
        kv.set_optimizer("sgd", learning_rate=-1, momentum=0.5, rescale_grad=1 / kv.num_workers)
        kv.init(["a", "b"], [full(0), full(0)])
        kv.init("rows", RowSparse(np.zeros((0, 2), np.float32), [], shape=(3, 2)))
        start, momentum = kv.pull("a")[0, 0], {0.0: 0.0, 2.5: 1.5}
        expected = start + 1 + 0.5 * momentum[start]
        for turn in range(2):
            kv.push("a", full(1))
            kv.push("rows", RowSparse([[1., 1.]], [2]))
            assert (kv.pull("a") == expected).all() and (kv.row_sparse_pull("rows", row_ids=[2]).data == expected).all(), (turn, kv.pull("a"), expected)
            expected += 1 + 0.5 * (1 + 0.5 * momentum[start])
        kv.push("b", full(1))
        assert (kv.pull("b") == (1 if start == 0 else 2.5)).all(), kv.pull("b")
        kv.barrier()
        if kv.rank == 0:
            kv.checkpoint()
        kv.barrier()
    print("from", start)


def lost() -> None:
    """Worker 1 dies, and the pulls of the others say so."""
    with stepgate.kvstore.create("dist_sync") as kv:
        kv.init("a", full(0))
        if kv.rank == 1:
            kv.pull("a")
            os.kill(os.getpid(), signal.SIGKILL)
        error = raised(stepgate.JobError, lambda: [kv.pull("a"), kv.pushpull("a", full(1))])  # already the first where another is late
        assert error.code == Code.ELOST and error.rank == 1 and error.exit_status == 75, vars(error)
        print("lost well", flush=True)
        sys.exit(error.exit_status)


def returned() -> None:
    """Worker 1 dies, is started again, initializes its keys, and has the value of the others to go on from (--lost-worker wait)."""
    with stepgate.kvstore.create("dist_sync") as kv:
        kv.set_optimizer("sgd", learning_rate=-1, rescale_grad=1 / kv.num_workers)
        kv.init(["a", "b"], [full(0), full(0)], together=True)
        start = int(kv.pull("a")[0, 0])
        for turn in range(start, 6):
            if kv.rank == 1 and start == 0 and turn == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            kv.push(["a", "b"], [full(1)] * 2)
            assert [one[0, 0] for one in kv.pull(["a", "b"])] == [turn + 1] * 2, turn
    print("from", start)


ALONE = (closed, closed_incomplete, differs, differs_in_optimizer, kept, lost, many, returned)  # in a job of their own


def rules() -> Iterator[tuple[str, Callable[[KVStore], None]]]:
    for name, case in globals().items():
        if callable(case) and getattr(case, "__annotations__", {}) == {"kv": KVStore, "return": None}:
            yield name, case


def main() -> None:
    for case in ALONE:
        if sys.argv[1:] == [case.__name__]:
            case()
            return print(case.__name__, "well", flush=True)
    with stepgate.Job() as job:
        for name, case in rules():
            if not sys.argv[1:] or name in sys.argv[1:]:
                case(stepgate.kvstore.create("dist_async" if name.startswith("async_") else "dist_sync", job=job, name=name))
                print(name, "well", flush=True)


main()

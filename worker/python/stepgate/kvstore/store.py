# SPDX-License-Identifier: BSD-3-Clause
"""KVStore: what MXNet calls so, over models of a job: one for each key, or for keys that were initialized together."""
from __future__ import annotations

from types import TracebackType
from typing import Callable, NoReturn, Optional, Sequence, Union

import numpy as np

from stepgate.error import check, error
from stepgate.job import Job
from stepgate.kvstore.entry import Entry, Key
from stepgate.kvstore.group import Group
from stepgate.kvstore.optimizer import keys_of
from stepgate.kvstore.rows import RowSparse, check_rows
from stepgate.library import library
from stepgate.options import Value
from stepgate.structure import Code
from stepgate.variable import Variable

Keys = Union[Key, Sequence[Key]]
_UPDATES = {"dist_sync": "strict", "dist_async": "async"}
_UNTIL_THEN: dict[str, dict[str, Value]] = {"dist_sync": {"optimizer": "none"}, "dist_async": {"optimizer": "sgd"}}  # until an optimizer is set: asynchronously nothing is pushed
_REFUSED = {
    "set_updater": "the ps run no Python: call set_optimizer", "_set_updater": "the ps run no Python: call set_optimizer",
    "set_gradient_compression": "initialize keys as float16, or push rows",
    "save_optimizer_states": "call checkpoint, or have the ps write checkpoints by themselves", "load_optimizer_states": "let the ps go on from a checkpoint: --checkpoint",
}


def create(type: str, *, job: Optional[Job] = None, name: str = "kvstore", **knobs: Value) -> KVStore:
    """"dist_sync" or "dist_async". Joins a job as stepgate.Job does, or takes one that is there, which it then leaves open. Several stores of one job have different names."""
    if type not in _UPDATES:
        raise error(Code.ENOTSUP, f"there is no KVStore {type!r}", "create dist_sync or dist_async")
    if job is not None and knobs:
        raise error(Code.EINVAL, f"{', '.join(knobs)} cannot be set in a job that is there", "give them to stepgate.Job")
    store = KVStore(type, job if job is not None else Job(**knobs), name)
    store._owns = job is None
    return store


class KVStore:
    """Made by create. Every worker initializes the same keys, in any order. For use by one thread."""

    def __init__(self, type: str, job: Job, name: str) -> None:
        if job.options["lost_ps"] == "rewind":
            raise error(Code.ENOTSUP, "a KVStore does not count steps, and cannot go back to one", "use lost_ps=fail, or stepgate.Model")
        self.type, self.job, self.name, self._owns = type, job, name, False
        self._groups: dict[Key, Group] = {}
        self._busy: dict[str, Group] = {}  # what is to be committed or handed in
        self._optimizer: Optional[dict[str, Value]] = None
        self._scale = 1.0

    def __getattr__(self, name: str) -> NoReturn:
        if name in _REFUSED:
            raise error(Code.ENOTSUP, f"there is no {name}", _REFUSED[name])
        raise AttributeError(f"a KVStore has no {name}")

    @property
    def rank(self) -> int:
        return self.job.rank

    @property
    def num_workers(self) -> int:
        return self.job.size

    def init(self, key: Keys, value: object, together: bool = False, rows_max: Optional[int] = None) -> None:
        """Each key once, before anything else is done with it. Worker 0's value counts, of the others' only shape and dtype. A RowSparse makes a row-sparse key, of which at most
        rows_max rows (all) are pushed at once. together: the keys of this call are one model, and are pushed equally often."""
        keys, values = _pairs(key, value)
        entries = [self._entry(one, its, rows_max) for one, its in zip(keys, values)]
        if len(set(keys)) < len(keys):
            raise error(Code.EALREADY, f"a key is there twice in {keys}", "initialize each key once")
        for part in [entries] if together else [[entry] for entry in entries]:
            group = Group(f"{self.name}.{min(str(entry.key) for entry in part)}", part)
            self._groups.update({entry.key: group for entry in part})
            self._busy[group.name] = group

    def _entry(self, key: Key, value: object, rows_max: Optional[int]) -> Entry:
        if not isinstance(key, (int, str)):
            raise error(Code.EINVAL, f"a key is a str or an int, not {key!r}")
        for other in self._groups:
            if isinstance(other, str) != isinstance(key, str):
                raise error(Code.EINVAL, f"keys are all str or all int, and {key!r} is not what {other!r} is")
        if key in self._groups:
            raise error(Code.EALREADY, f"key {key!r} has been initialized", "initialize each key once")
        table = value.dense() if isinstance(value, RowSparse) else np.array(value)
        if not isinstance(value, RowSparse):
            return Entry(key, table, None)
        return Entry(key, table, len(table) if rows_max is None else min(rows_max, len(table)))

    def push(self, key: Keys, value: object, priority: int = 0) -> None:
        """Adds to the next round of each key, and does not wait for others. The value of a key may be a list, of one array for each device: they are added; so are values of a key that
        is there more than once. Arrays are the caller's again. priority: a hint, without effect here."""
        if self.type == "dist_async" and self._optimizer is None:
            raise error(Code.ESTATE, "dist_async has no optimizer, and there is no round whose sum could be the value", "call set_optimizer first")
        values: dict[Key, list[object]] = {}
        for one, its in zip(*_pairs(key, value)):
            values.setdefault(one, []).extend(its if isinstance(its, (list, tuple)) else [its])
        contributions = [(one, self._entry_of(one).contribution(its)) for one, its in values.items()]
        for one, contribution in contributions:
            group = self._groups[one]
            group.put(one, contribution)
            self._busy[group.name] = group
        try:
            self._advance()
        finally:
            for one in values:
                self._groups[one].keep()

    def pull(self, key: Keys, out: object = None, priority: int = 0, *, timeout: Optional[float] = None) -> object:
        """The value after the rounds that this worker has pushed, into out: an array, or a list of one for each device; of several keys a list of those. Without out, copies."""
        keys, outs = _pairs(key, out)
        for one, its in zip(keys, outs):
            entry = self._entry_of(one)
            if entry.rows_max is not None:
                raise error(Code.EINVAL, f"key {one!r} is row-sparse", "call row_sparse_pull")
            for array in _targets(its):
                entry.check_out(array)
        copies = []
        for one, its in zip(keys, outs):
            value = self._pulled(one, timeout)
            for array in _targets(its):
                np.copyto(array, value, casting="same_kind")
            if its is None:
                copies.append(value.copy())
        return (copies if isinstance(key, (list, tuple)) else copies[0]) if copies else None

    def pushpull(self, key: Keys, value: object, out: object = None, priority: int = 0, *, timeout: Optional[float] = None) -> object:
        self.push(key, value, priority)
        return self.pull(key, out, priority, timeout=timeout)

    def broadcast(self, key: Keys, value: object, out: object = None, priority: int = 0, *, timeout: Optional[float] = None) -> object:
        """init and pull."""
        self.init(key, value)
        return self.pull(key, out, priority, timeout=timeout)

    def row_sparse_pull(self, key: Keys, out: Union[RowSparse, Sequence[RowSparse], None] = None, priority: int = 0, row_ids: object = None, *,
                        timeout: Optional[float] = None) -> Union[RowSparse, Sequence[RowSparse]]:
        """Rows of a row-sparse key, each once and in rising order, as a RowSparse; out is made that. Of several keys, or of a list of outs, one for each device, row_ids is a list, too."""
        if isinstance(key, (list, tuple)):
            return [self.row_sparse_pull(one, its, priority, ids, timeout=timeout) for one, its, ids in zip(key, _pairs(key, out)[1], _pairs(key, row_ids)[1])]
        entry = self._entry_of(key)
        if entry.rows_max is None:
            raise error(Code.EINVAL, f"key {key!r} is not row-sparse", "call pull")
        if row_ids is None:
            raise error(Code.EINVAL, "row_ids is missing", "say which rows are wanted")
        if isinstance(out, (list, tuple)):
            if not isinstance(row_ids, (list, tuple)) or len(row_ids) != len(out):
                raise error(Code.EINVAL, f"{len(out)} outs want as many row_ids", "give a list of row_ids for each")
            return [self.row_sparse_pull(key, one, priority, its, timeout=timeout) for one, its in zip(out, row_ids)]
        indices = RowSparse(np.zeros(np.size(row_ids)), np.ravel(row_ids)).indices
        check_rows(indices, entry.shape[0])
        indices = np.unique(indices)
        rows = self._readable(key, timeout).pull_rows(indices, timeout=timeout)
        if out is None:
            return RowSparse(rows, indices, entry.shape)
        out.data, out.indices, out.shape = rows, indices, entry.shape
        return out

    def set_optimizer(self, name: str, *, timeout: Optional[float] = None, **parameters: Value) -> None:
        """Called by every worker alike. Keys that are in use already go on from their value, with fresh optimizer state; they take memory of the ps once more."""
        keys, scale = keys_of(name, parameters)
        used = [one for one, group in self._groups.items() if group.model is not None]
        if used:
            for one in used:
                self._readable(one, timeout)
            self.barrier(timeout)  # nobody pushes any more
            for one in used:
                self._entry_of(one).value = self._pulled(one, timeout).copy()
        for group in self._groups.values():
            group.model = None
            self._busy[group.name] = group
        self._optimizer, self._scale = keys, scale

    def barrier(self, timeout: Optional[float] = None) -> None:
        """Returns when every worker is in it. It does not wait for rounds."""
        self._wait(lambda ms: library.job_barrier(self.job._pointer, ms), timeout, "join_timeout")

    def checkpoint(self, timeout: Optional[float] = None) -> None:
        """Asks the ps to write values and the optimizer's state of every key, after the rounds that this worker has pushed, and waits until all are on the disk. One worker is enough."""
        for one in self._groups:
            self._readable(one, timeout)
        for group in dict.fromkeys(self._groups.values()):
            group.model.checkpoint(timeout)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits until all that was pushed has been handed in, which for the last push of a key takes until its round before is complete."""
        for one, group in self._groups.items():
            group.check_complete(one)
        self._wait(lambda ms: min((group.advance(ms) for group in self._busy.values()), default=0), timeout, "step_timeout")

    def close(self) -> None:
        """Hands in what was pushed, and leaves the job, if it was joined here."""
        if self.job.closed:
            return
        well = False
        try:
            self.flush()
            well = True
        finally:
            if self._owns:
                self.job.close(leave=well)

    def _entry_of(self, key: Key) -> Entry:
        if key not in self._groups:
            raise error(Code.ENOENT, f"there is no key {key!r}", "initialize it first")
        return self._groups[key].entries[key]

    def _advance(self) -> None:
        """Goes on with every group that has something to do, as far as that is possible without waiting."""
        for name, group in sorted(self._busy.items()):
            if group.model is None:
                group.make(self.job, {"update": _UPDATES[self.type], **(self._optimizer or _UNTIL_THEN[self.type])}, self._scale)
            if (result := group.advance(0)) == 0:
                del self._busy[name]
            elif result != -Code.EAGAIN:
                check(result)

    def _wait(self, attempt: Callable[[int], int], timeout: Optional[float], knob: str) -> None:
        """Others may wait for what this worker has pushed."""
        def going_on(ms: int) -> int:
            self._advance()
            return attempt(ms)
        self.job._wait(going_on, timeout, knob)

    def _readable(self, key: Key, timeout: Optional[float]) -> Variable:
        group = self._groups[key]
        group.renew(key)
        if not group.committed:
            self._wait(group.commit, timeout, "join_timeout")
        self._wait(lambda ms: group.advance(ms, key), timeout, "step_timeout")
        return group.variables[key]

    def _pulled(self, key: Key, timeout: Optional[float]) -> np.ndarray:
        variable = self._readable(key, timeout)
        variable.pull(timeout)
        return variable.value

    def __enter__(self) -> KVStore:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
        elif self._owns:
            self.job.close(leave=False)


def _pairs(key: Keys, value: object) -> tuple[list[Key], list[object]]:
    if not isinstance(key, (list, tuple)):
        return [key], [value]
    if value is None:
        return list(key), [None] * len(key)
    if not isinstance(value, (list, tuple)) or len(value) != len(key):
        raise error(Code.EINVAL, f"{len(key)} keys want a list of as many values")
    return list(key), list(value)


def _targets(out: object) -> Sequence[object]:
    return () if out is None else out if isinstance(out, (list, tuple)) else (out,)


__all__ = ["KVStore", "create"]

# SPDX-License-Identifier: BSD-3-Clause
"""Group: keys whose values change together, as one model. A round is a push of each of its keys by this worker; rounds are steps of the model."""
from __future__ import annotations

from typing import Mapping, Optional, Sequence, Union

import numpy as np

from stepgate.error import error
from stepgate.job import Job
from stepgate.kvstore.contribution import Dense, Rows
from stepgate.library import byref, library
from stepgate.model import Model
from stepgate.options import Value
from stepgate.structure import Code, Kind, StepInfo, Type, sized

Key = Union[str, int]


class Entry:
    """What a key was initialized as."""

    def __init__(self, key: Key, value: np.ndarray, rows_max: Optional[int]) -> None:
        self.key, self.value, self.rows_max = key, value, rows_max

    @property
    def element(self) -> np.dtype:
        """Of what is pushed: halves are summed as floats."""
        return np.dtype(np.float32) if self.value.dtype == np.float16 else self.value.dtype

    def contribution(self, values: Sequence[object]) -> Union[Dense, Rows]:
        if self.rows_max is None:
            return Dense(self.key, values, self.value.shape, self.element)
        return Rows(self.key, values, self.value.shape, self.element, self.rows_max)

    def check_out(self, array: object) -> None:
        if not isinstance(array, np.ndarray) or array.shape != self.value.shape or not array.flags.writeable or not np.can_cast(self.value.dtype, array.dtype, "same_kind"):
            raise error(Code.EINVAL, f"out of key {self.key!r} is no array of {list(self.value.shape)} that takes {self.value.dtype}")

    def declare(self, model: Model) -> None:
        options: dict[str, Value] = {"gradient_dtype": "f32"} if self.value.dtype == np.float16 else {}
        if self.rows_max is not None:
            options.update(rows_max=self.rows_max, row_mean="replicas")
        model.variable(str(self.key), self.value.shape, self.value.dtype, Kind.TRAINED if self.rows_max is None else Kind.SPARSE, self.value, **options)


class Group:
    """The model is made when it is first needed, of what the store's optimizer is then.

    Nothing here waits: `advance` goes on as far as it can, and says what it waits for."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self.name, self.entries = name, {entry.key: entry for entry in sorted(entries, key=lambda entry: str(entry.key))}
        self.model: Optional[Model] = None
        self._makes = 0
        self._rounds: list[dict[Key, Union[Dense, Rows]]] = []
        self._committed = self._open = False
        self._info = sized(StepInfo)
        self._read: set[Key] = set()

    def make(self, job: Job, keys: Mapping[str, Value], scale: float) -> None:
        """The name of a model is taken once it was tried, so that each try has another."""
        self._makes += 1
        model = Model(job, self.name if self._makes == 1 else f"{self.name}#{self._makes}")
        for key, value in keys.items():
            model.set(key, value)
        for entry in self.entries.values():
            entry.declare(model)
        self.model, self._scale, self._sums = model, scale, keys["update"] == "strict"
        self._committed = self._open = False

    def put(self, key: Key, contribution: Union[Dense, Rows]) -> None:
        """Into the first round that has none of this key."""
        for one in self._rounds:
            if key not in one:
                one[key] = contribution
                return
        self._rounds.append({key: contribution})

    def keep(self) -> None:
        """What could not be handed in is copied, and arrays are the caller's again."""
        for one in self._rounds:
            for contribution in one.values():
                contribution.keep()

    @property
    def waiting(self) -> bool:
        """Is there a round that is complete and was not handed in?"""
        return bool(self._rounds) and len(self._rounds[0]) == len(self.entries)

    def check_complete(self, key: Key) -> None:
        for one in self._rounds:
            missing = [repr(other) for other in self.entries if other not in one]
            if key in one and missing:
                raise error(Code.ESTATE, f"key {key!r} was pushed, and {', '.join(missing)} of the same round not yet", "push all keys that were initialized together, then pull")

    def renew(self, key: Key) -> None:
        """Before a key is read: of several readings in one step all are the same, and where steps wait for nobody it may have changed since."""
        self.check_complete(key)
        if self._open and not self._sums and not self.waiting and key in self._read:
            self.model.abandon()
            self._open = False

    def advance(self, ms: int, read: Optional[Key] = None) -> int:
        """0, or the negative code of what is to be waited for: then it may be repeated. read: a key that is to be read, in a step that is open for it."""
        if not self._committed:
            if (result := library.model_commit(self.model._pointer, ms, None)) < 0:
                return result
            self._committed = True
        while self.waiting or (read is not None and not self._open):
            if not self._open:
                if (result := library.step_begin(self.model._pointer, ms, byref(self._info))) < 0:
                    return result
                self._open = True
                self._read.clear()
            if self.waiting:
                if not all(self.model[str(key)].idle for key, entry in self.entries.items() if entry.rows_max is None):
                    return -Code.EAGAIN
                self._hand_in()
        if read is not None:
            self._read.add(read)
        return 0

    def _hand_in(self) -> None:
        # the ps make the mean of R contributions, and a sum is wanted
        scale = self._scale * (self._info.replicas_to_aggregate if self._sums else 1)
        for key, contribution in self._rounds[0].items():
            contribution.hand_in(self.model[str(key)], scale)
        self.model.finish()
        self._open = False
        del self._rounds[0]


__all__ = ["Entry", "Group", "Key"]

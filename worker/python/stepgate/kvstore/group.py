# SPDX-License-Identifier: BSD-3-Clause
"""Group: keys whose values change together, as one model. A round is a push of each of its keys by this worker; rounds are steps of the model."""
from __future__ import annotations

from typing import Mapping, Optional, Sequence, Union

from stepgate.error import error
from stepgate.job import Job
from stepgate.kvstore.contribution import Dense, Rows
from stepgate.kvstore.entry import Entry, Key
from stepgate.library import byref, library
from stepgate.model import Model
from stepgate.options import Value
from stepgate.structure import Code, StepInfo, sized
from stepgate.variable import Variable


class Group:
    """The model is made when it is first needed, of what the store's optimizer is then.

    Nothing here waits: `advance` goes on as far as it can, and says what it waits for."""

    def __init__(self, name: str, entries: Sequence[Entry]) -> None:
        self.name, self.entries = name, {entry.key: entry for entry in sorted(entries, key=lambda entry: str(entry.key))}
        self.model: Optional[Model] = None
        self.variables: dict[Key, Variable] = {}
        self._makes = 0
        self._rounds: list[dict[Key, Union[Dense, Rows]]] = []
        self.committed = self._open = False
        self._info = sized(StepInfo)
        self._read: set[Key] = set()

    def make(self, job: Job, keys: Mapping[str, Value], scale: float) -> None:
        """The name of a model is taken once it was tried, so that each try has another."""
        self._makes += 1
        model = Model(job, self.name if self._makes == 1 else f"{self.name}#{self._makes}")
        for key, value in keys.items():
            model.set(key, value)
        self.variables = {key: entry.declare(model) for key, entry in self.entries.items()}
        self.model, self._scale, self._sums = model, scale, keys["update"] == "strict"
        self.committed = self._open = False

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

    def commit(self, ms: int) -> int:
        """0, or the negative code of what is to be waited for: then it may be repeated."""
        if self.committed:
            return 0
        if (result := library.model_commit(self.model._pointer, ms, None)) < 0:
            return result
        self.committed = True
        for entry in self.entries.values():
            entry.value = None
        return 0

    def advance(self, ms: int, read: Optional[Key] = None) -> int:
        """As commit, which comes first. read: a key that is to be read, in a step that is open for it."""
        if (result := self.commit(ms)) < 0:
            return result
        while self.waiting or (read is not None and not self._open):
            if not self._open:
                if (result := library.step_begin(self.model._pointer, ms, byref(self._info))) < 0:
                    return result
                self._open = True
                self._read.clear()
            if self.waiting:
                if not all(variable.idle for key, variable in self.variables.items() if self.entries[key].rows_max is None):
                    return -Code.EAGAIN
                self._hand_in()
        if read is not None:
            self._read.add(read)
        return 0

    def _hand_in(self) -> None:
        # the ps make the mean of R contributions, and a sum is wanted
        scale = self._scale * (self._info.replicas_to_aggregate if self._sums else 1)
        for key, contribution in self._rounds[0].items():
            contribution.hand_in(self.variables[key], scale)
        self.model.finish()
        self._open = False
        del self._rounds[0]


__all__ = ["Group"]

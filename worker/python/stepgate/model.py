# SPDX-License-Identifier: BSD-3-Clause
"""Model: variables with one optimizer and one step counter; and its steps."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Callable, Sequence

import numpy as np

from stepgate.error import check
from stepgate.library import byref, library
from stepgate.memory import NUMPY, type_of
from stepgate.options import Value, text_of
from stepgate.structure import Contributions, Kind, ModelInfo, StepInfo, VariableInfo, What, dims, sized
from stepgate.variable import Variable

if TYPE_CHECKING:
    from stepgate.job import Job

ALL = -1


class Model:
    """Made by job.model(name, optimizer="adam", ...): variables are declared, worker 0's are initialized, all workers commit; then steps: begin, pull, compute, push, finish."""

    def __init__(self, job: Job, name: str, attach: bool = False, timeout: float | None = None) -> None:
        self.job, self.name = job, name
        self.variables: dict[str, Variable] = {}
        self._handle = job._handle  # keeps the memory of variables as long as they are there
        self._model = ctypes.c_void_p()
        if attach:
            job._wait(lambda ms: library.model_attach(job._pointer, name.encode(), ms, byref(self._model)), timeout, "join_timeout")
            self._learn()
        else:
            check(library.model_new(job._pointer, name.encode(), byref(self._model)))
        job._models.append(self)

    @property
    def _pointer(self) -> ctypes.c_void_p:
        self.job._pointer  # says so if the job is closed: its models have gone with it
        return self._model

    def _wait(self, attempt: Callable[[int], int], timeout: float | None, knob: str) -> int:
        return self.job._wait(attempt, timeout, knob)

    def _learn(self) -> None:
        for number in range(check(library.model_count(self._pointer))):
            info = sized(VariableInfo)
            check(library.model_describe(self._pointer, number, byref(info)))
            self.variables[info.name.decode()] = Variable(self, number, info)

    def set(self, key: str, value: Value) -> None:
        """A key of the model, before commit: include/stepgate/model.h has the table."""
        check(library.model_set(self._pointer, key.encode(), text_of(value)))

    def variable(self, name: str, shape: Sequence[int] = (), dtype: object = "float32", kind: Kind = Kind.TRAINED,
                 initial: np.ndarray | Sequence[float] | float | None = None, **options: Value) -> Variable:
        """Declares one. initial counts on worker 0; zeros without it. options: of stepgate_model_variable_set, e.g. rows_max=100, decays=False."""
        number, shape, element = ctypes.c_int(), tuple(int(n) for n in shape), type_of(dtype)
        check(library.model_variable(self._pointer, name.encode(), kind, element, len(shape), dims(shape), byref(number)))
        for key, value in options.items():
            check(library.model_variable_set(self._pointer, number.value, key.encode(), text_of(value)))
        info = sized(VariableInfo)
        check(library.model_describe(self._pointer, number.value, byref(info)))
        variable = self.variables[name] = Variable(self, number.value, info)
        if initial is not None:
            values = np.ascontiguousarray(np.broadcast_to(np.asarray(initial, dtype=NUMPY[element]), shape))
            variable.initialize(values.ctypes.data, values.nbytes)
        return variable

    def commit(self, timeout: float | None = None) -> ModelInfo:
        """Collective: every worker declares the same."""
        info = sized(ModelInfo)
        self._wait(lambda ms: library.model_commit(self._pointer, ms, byref(info)), timeout, "join_timeout")
        return info

    def begin(self, timeout: float | None = None) -> StepInfo:
        """Waits for the token of the next step, and says which it is, and what became of the contribution before."""
        info = sized(StepInfo)
        self._wait(lambda ms: library.step_begin(self._pointer, ms, byref(info)), timeout, "step_timeout")
        return info

    def pull(self, timeout: float | None = None) -> int:
        """Makes the values of this step readable (but for sparse variables that are not mapped in place); the step that was read."""
        return self._pull(ALL, timeout)

    def _pull(self, number: int, timeout: float | None) -> int:
        step = ctypes.c_uint64()
        self._wait(lambda ms: library.step_pull(self._pointer, number, ms, byref(step)), timeout, "step_timeout")
        return step.value

    def finish(self, weight: float = 1.0) -> None:
        """The contribution is complete: every variable was pushed or declared absent."""
        check(library.step_finish(self._pointer, weight))

    def abandon(self) -> None:
        """This contribution counts for nothing."""
        check(library.step_abandon(self._pointer))

    def tune(self, key: str, value: Value, from_step: int) -> None:
        """Worker 0 changes a hyper-parameter from a step on."""
        check(library.model_tune(self._pointer, key.encode(), text_of(value), from_step))

    def slots(self) -> list[str]:
        """Names of the optimizer's slots."""
        names, index = [], 0
        while (name := library.model_slot_name(self._pointer, index)) is not None:
            names.append(name.decode())
            index += 1
        return names

    def snapshot(self, names: Sequence[str] | None = None, what: What = What.PARAMETERS,
                 timeout: float | None = None) -> tuple[dict[str, np.ndarray], int]:
        """Copies of variables (all but the aux ones), all of one exact step, and that step. Averages are f32, of an f64 variable f64."""
        if names is None:
            names = [name for name, one in self.variables.items() if one.kind != Kind.AUX]
        chosen = [self.variables[name] for name in names]
        copies = [np.empty(one.shape, NUMPY[one.dtype if what == What.PARAMETERS else one.computed]) for one in chosen]
        numbers = (ctypes.c_int * len(chosen))(*[one.number for one in chosen])
        out = (ctypes.c_void_p * len(chosen))(*[one.ctypes.data for one in copies])
        step = ctypes.c_uint64()
        self._wait(lambda ms: library.model_snapshot(self._pointer, what, numbers, len(chosen), out, ms, byref(step)), timeout, "join_timeout")
        return dict(zip(names, copies)), step.value

    def contributions(self, rank: int, timeout: float | None = None) -> Contributions:
        """What became of those of one worker."""
        counts = sized(Contributions)
        self._wait(lambda ms: library.model_contributions(self._pointer, rank, ms, byref(counts)), timeout, "join_timeout")
        return counts

    def checkpoint(self, timeout: float | None = None) -> int:
        """Asks the ps for a checkpoint, and waits until it is on the disk; the step that training would go on with."""
        step = ctypes.c_uint64()
        self._wait(lambda ms: library.checkpoint(self._pointer, ms, byref(step)), timeout, "join_timeout")
        return step.value

    def __getitem__(self, name: str) -> Variable:
        return self.variables[name]


__all__ = ["Model"]

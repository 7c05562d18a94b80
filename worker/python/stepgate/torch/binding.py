# SPDX-License-Identifier: BSD-3-Clause
"""Bindings: a tensor of the script and its variable. Values come with `refresh`, after a pull; what goes to the ps is put into the variable's slot and pushed."""
from __future__ import annotations

from typing import Optional

import torch

from stepgate.error import error
from stepgate.structure import Code, Kind
from stepgate.torch.tensor import Views
from stepgate.variable import Variable


class Dense:
    """A parameter whose gradient lives in the slot: param.grad is a tensor over it. Where the ps apply the optimizer, param.data is a tensor over the value, which is the ps's own
    memory; where workers do, the value is the mean of the gradients, and param.data the worker's own."""

    def __init__(self, parameter: torch.nn.Parameter, variable: Variable, trained: bool, applied: bool) -> None:
        self.parameter, self.variable = parameter, variable
        self.trained, self._applied = trained, applied
        self.touched = self.pushed = False
        self._slots, self._values = Views(variable), Views(variable)
        self._slot: Optional[torch.Tensor] = None
        self._version = 0

    def start(self) -> None:
        """The first pull: everybody has worker 0's values."""
        value = self._values.at(self.variable.value_address())
        if self._applied:
            self.parameter.data = value
        else:
            self.parameter.data.copy_(value)

    def refresh(self, fixed: bool) -> None:
        """A new step: its value, and an empty slot. fixed: slots do not move."""
        if self._applied:
            self.parameter.data = self._values.at(self.variable.value_address())
        if not self.trained:
            return
        slot = self._slot if fixed and self._slot is not None else self._slots.at(self.variable.gradient_address())
        if self.touched or slot is not self._slot or not fixed:
            slot.zero_()
        self.touched = self.pushed = False
        self._slot = slot
        self.parameter.grad = slot

    def mean(self) -> None:
        """For workers that apply it: the gradient is the mean of all."""
        if self.trained:
            self.parameter.grad = self._values.at(self.variable.value_address())

    def settle(self) -> None:
        """Backward has added to the gradient. It has one of its own if somebody has set it to None."""
        assert self._slot is not None
        if self.parameter.grad is not self._slot and self.parameter.grad is not None:
            self._slot.copy_(self.parameter.grad)
            self.parameter.grad = self._slot
        self.touched = True

    def push(self, scale: float) -> None:
        assert self._slot is not None
        if scale != 1:
            self._slot.mul_(scale)
        self.variable.push()
        self.pushed, self._version = True, self._slot._version

    def need_untouched(self) -> None:
        """What was pushed is not the script's any more."""
        if self.pushed and self._slot is not None and self._slot._version != self._version:
            raise error(Code.ESTATE, f"the gradient of {self.variable.name} was changed after it had been pushed",
                        'clip on the ps (clip_norm=...), or make the optimizer with push="step"')

    def clear(self) -> None:
        if self.touched and self._slot is not None:
            self._slot.zero_()
            self.parameter.grad = self._slot
        self.touched = False

    def forget(self) -> None:
        """The job has gone back: all addresses are new."""
        self._slots.forget()
        self._values.forget()
        self._slot = None

    def release(self) -> None:
        """The job closes: the script keeps what it has, in memory of its own."""
        if self._applied:
            self.parameter.data = self.parameter.data.clone()
        self.parameter.grad = self._slot = None
        self.forget()


class Sparse:
    """A parameter whose gradient is sparse: its rows are pushed. Only with an optimizer on the ps."""

    def __init__(self, parameter: torch.nn.Parameter, variable: Variable) -> None:
        self.parameter, self.variable = parameter, variable
        self.trained = True
        self.touched = self.pushed = False
        self._values = Views(variable)

    def start(self) -> None:
        self.refresh(True)

    def refresh(self, fixed: bool) -> None:
        self.variable.pull()
        self.parameter.data = self._values.at(self.variable.value_address())
        self.parameter.grad = None
        self.touched = self.pushed = False

    def settle(self) -> None:
        self.touched = True

    def push(self, scale: float) -> None:
        gradient = self.parameter.grad
        assert gradient is not None
        if gradient.is_sparse:
            gradient = gradient.coalesce()
            indices, rows = gradient.indices()[0].contiguous(), gradient.values().contiguous()
        else:  # somebody uses the table as a whole
            indices, rows = torch.arange(len(gradient)), gradient.contiguous()
        if scale != 1:
            rows = rows * scale
        self.variable.push_rows_at(indices.data_ptr(), len(indices), rows.data_ptr())
        self.pushed = True

    def need_untouched(self) -> None:
        """Rows are handed over with the push."""

    def clear(self) -> None:
        self.parameter.grad = None
        self.touched = False

    def forget(self) -> None:
        self._values.forget()

    def release(self) -> None:
        self.parameter.data = self.parameter.data.clone()
        self.parameter.grad = None
        self.forget()


class Buffer:
    """What a module keeps beside its parameters, such as the statistics of a batch normalisation, which forward changes: pushed with each step, and taken over from the pull."""

    def __init__(self, tensor: torch.Tensor, variable: Variable) -> None:
        self._tensor, self.variable = tensor, variable
        self._slots, self._values = Views(variable), Views(variable)

    def refresh(self, back: bool) -> None:
        """back: a worker's own value is taken over only where the job goes on from a checkpoint."""
        if self.variable.kind == Kind.ASSIGNED or back:
            self._tensor.copy_(self._values.at(self.variable.value_address()))

    def push(self) -> None:
        self._slots.at(self.variable.gradient_address()).copy_(self._tensor)
        self.variable.push()

    def forget(self) -> None:
        self._slots.forget()
        self._values.forget()


class Number:
    """A number of the script's, of which the mean over the workers is wanted."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable

    def push(self, value: Optional[float]) -> None:
        if value is None:
            self._variable.absent()
        else:
            self._variable.gradient[...] = value
            self._variable.push()

    @property
    def mean(self) -> float:
        return float(self._variable.value)


__all__ = ["Dense", "Sparse", "Buffer", "Number"]

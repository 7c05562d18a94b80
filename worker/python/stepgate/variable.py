# SPDX-License-Identifier: BSD-3-Clause
"""Variable: of a model; where its gradient goes and its value is."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np

from stepgate import memory
from stepgate.error import check
from stepgate.library import byref, library
from stepgate.structure import Kind, Type, Use, VariableInfo

if TYPE_CHECKING:
    from stepgate.model import Model


def _row_numbers(indices: object) -> np.ndarray:
    return np.ascontiguousarray(indices, dtype=np.uint64)


class Variable:
    """Made by model.variable(...). Arrays of it are views, valid as include/stepgate/buffer.h says: a gradient from the pull of a step to its push, a value to the next begin."""

    def __init__(self, model: Model, number: int, info: VariableInfo) -> None:
        self.model, self.number, self.name = model, number, info.name.decode()
        self.kind, self.dtype, self.gradient_dtype = Kind(info.kind), Type(info.dtype), Type(info.gradient_dtype)
        self.shape = tuple(info.dims[:info.rank])
        self.bytes, self.gradient_bytes = info.bytes, info.gradient_bytes
        self._attached: dict[Use, object] = {}

    @property
    def computed(self) -> Type:
        """The type of its optimizer slots and averages."""
        return Type.F64 if self.dtype == Type.F64 else Type.F32

    def initialize(self, address: int, count: int) -> None:
        """The initial value, of worker 0, copied from memory."""
        check(library.model_initialize(self.model._pointer, self.number, address, count))

    def gradient_address(self) -> int:
        pointer = ctypes.c_void_p()
        check(library.buffer_gradient(self.model._pointer, self.number, byref(pointer)))
        return pointer.value or 0

    def value_address(self) -> int:
        pointer = ctypes.c_void_p()
        check(library.buffer_parameter(self.model._pointer, self.number, byref(pointer)))
        return pointer.value or 0

    @property
    def gradient(self) -> np.ndarray:
        """Where to put the gradient (of an assigned or aux variable: its value). Write every element: it holds an older one."""
        buffer = memory.at(self.gradient_address(), self.gradient_bytes, self.model._handle)
        return memory.array(buffer, self.gradient_dtype, self.shape, writable=True)

    @property
    def value(self) -> np.ndarray:
        """The value of the last pull; not writable."""
        buffer = memory.at(self.value_address(), self.bytes, self.model._handle)
        return memory.array(buffer, self.dtype, self.shape, writable=False)

    @property
    def idle(self) -> bool:
        """May the gradient be rewritten?"""
        return check(library.buffer_is_idle(self.model._pointer, self.number)) == 1

    def attach(self, use: Use, array: np.ndarray) -> None:
        """Uses memory of the caller's from now on, for its gradient or its value."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise ValueError("an array to attach must be contiguous and writable")
        check(library.buffer_attach(self.model._pointer, self.number, use, array.ctypes.data, array.nbytes))
        self._attached[use] = array  # it lives as long as this does

    def attach_dmabuf(self, use: Use, fd: int, offset: int = 0) -> None:
        """The same with a part of a dma-buf, for example of a GPU's memory, which the device of the verbs transport reads and writes; the descriptor may be closed afterwards."""
        size = self.gradient_bytes if use == Use.GRADIENT else self.bytes
        check(library.buffer_attach_dmabuf(self.model._pointer, self.number, use, fd, offset, size))
        self._attached.pop(use, None)

    def detach(self, use: Use) -> None:
        check(library.buffer_detach(self.model._pointer, self.number, use))
        self._attached.pop(use, None)

    def pull(self, timeout: float | None = None) -> int:
        """Makes the value of this step readable; the step that was read."""
        return self.model._pull(self.number, timeout)

    def pull_rows(self, indices: object, out: np.ndarray | None = None, timeout: float | None = None) -> np.ndarray:
        """Copies of rows, in this order."""
        rows = _row_numbers(indices)
        wanted = (len(rows), *self.shape[1:])
        if out is None:
            out = np.empty(wanted, memory.NUMPY[self.dtype])
        elif out.shape != wanted or out.dtype != memory.NUMPY[self.dtype] or not out.flags.c_contiguous or not out.flags.writeable:
            raise ValueError(f"out must be a writable, contiguous array of {wanted} {memory.NUMPY[self.dtype]}")
        target, step = out, ctypes.c_uint64()
        self.model._wait(lambda ms: library.step_pull_rows(self.model._pointer, self.number, rows.ctypes.data, len(rows), target.ctypes.data, ms,
                                                           byref(step)), timeout, "step_timeout")
        return out

    def push(self) -> None:
        """Hands in the gradient; from any thread."""
        check(library.step_push(self.model._pointer, self.number))

    def push_rows(self, indices: object, rows: np.ndarray) -> None:
        """Hands in rows of the gradient of a sparse variable; rows of the same index are added."""
        numbers = _row_numbers(indices)
        values = np.ascontiguousarray(rows, dtype=memory.NUMPY[self.gradient_dtype])
        if values.shape != (len(numbers), *self.shape[1:]):
            raise ValueError(f"{len(numbers)} rows of {self.shape[1:]} are wanted, not {values.shape}")
        self.push_rows_at(numbers.ctypes.data, len(numbers), values.ctypes.data)

    def push_rows_at(self, indices: int, count: int, rows: int) -> None:
        """The same, from memory."""
        check(library.step_push_rows(self.model._pointer, self.number, indices, count, rows))

    def absent(self) -> None:
        """There is no gradient in this step."""
        check(library.step_absent(self.model._pointer, self.number))

    def slot(self, name: str, timeout: float | None = None) -> tuple[np.ndarray, int]:
        """A copy of an optimizer slot, and the step that it is of."""
        out, step = np.empty(self.shape, memory.NUMPY[self.computed]), ctypes.c_uint64()
        self.model._wait(lambda ms: library.model_slot(self.model._pointer, self.number, name.encode(), ms, out.ctypes.data, out.nbytes, byref(step)),
                         timeout, "join_timeout")
        return out, step.value


__all__ = ["Variable"]

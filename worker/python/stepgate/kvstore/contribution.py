# SPDX-License-Identifier: BSD-3-Clause
"""Contributions: what a worker pushes for a key in a round, and how it goes into the hands of the library."""
from __future__ import annotations

from typing import Sequence

import numpy as np

from stepgate.error import error
from stepgate.kvstore.rows import RowSparse, check_rows
from stepgate.memory import NUMPY
from stepgate.structure import Code
from stepgate.variable import Variable


class Dense:
    """Arrays that are added, one of each device, and scaled then. Until `keep` they are the caller's. Bits are the same with and without it."""

    def __init__(self, key: object, values: Sequence[object], shape: tuple[int, ...], element: np.dtype) -> None:
        self.values, self.element, self.kept = [np.asarray(value) for value in values], element, False
        for value in self.values:
            if value.shape != shape or not np.can_cast(value.dtype, element, "same_kind"):
                raise error(Code.EINVAL, f"key {key!r} is {element} {list(shape)}, and {value.dtype} {list(value.shape)} was pushed")

    def keep(self) -> None:
        if not self.kept:
            self.values, self.kept = [self._sum(np.empty(self.values[0].shape, self.element))], True

    def hand_in(self, variable: Variable, scale: float) -> None:
        gradient = variable.gradient
        if len(self.values) == 1:  # in one pass
            np.multiply(self.values[0], scale, out=gradient, dtype=self.element, casting="same_kind")
        else:
            np.multiply(self._sum(gradient), scale, out=gradient)
        variable.push()

    def _sum(self, out: np.ndarray) -> np.ndarray:
        np.copyto(out, self.values[0], casting="same_kind")
        for value in self.values[1:]:
            np.add(out, value, out=out, dtype=self.element, casting="same_kind")
        return out


class Rows:
    """Rows of all devices, each row once."""

    def __init__(self, key: object, values: Sequence[object], shape: tuple[int, ...], element: np.dtype, most: int) -> None:
        for value in values:
            if not isinstance(value, RowSparse):
                raise error(Code.EINVAL, f"key {key!r} is row-sparse, and {type(value).__name__} was pushed", "push a RowSparse")
            if value.data.shape[1:] != shape[1:] or not np.can_cast(value.data.dtype, element, "same_kind"):
                raise error(Code.EINVAL, f"rows of key {key!r} are {element} {list(shape[1:])}, and {value.data.dtype} {list(value.data.shape[1:])} were pushed")
            check_rows(value.indices, shape[0])
        indices, rows = np.concatenate([value.indices for value in values]), np.concatenate([value.data for value in values]).astype(element, casting="same_kind")
        self.indices, places = np.unique(indices, return_inverse=True)
        if len(self.indices) > most:
            raise error(Code.EINVAL, f"{len(self.indices)} rows of key {key!r} were pushed at once, of at most {most}", "give init a greater rows_max")
        self.rows = np.zeros((len(self.indices), *shape[1:]), element)
        if len(self.indices) == len(indices):
            self.rows[places] = rows
        else:  # some times slower
            np.add.at(self.rows, places, rows)

    def keep(self) -> None:
        pass  # the rows have been copied

    def hand_in(self, variable: Variable, scale: float) -> None:
        variable.push_rows(self.indices, self.rows * NUMPY[variable.gradient_dtype].type(scale))


__all__ = ["Dense", "Rows"]

# SPDX-License-Identifier: BSD-3-Clause
"""Entry: what a key was initialized as."""
from __future__ import annotations

from typing import Optional, Sequence, Union

import numpy as np

from stepgate.error import error
from stepgate.kvstore.contribution import Dense, Rows
from stepgate.memory import type_of
from stepgate.model import Model
from stepgate.options import Value
from stepgate.structure import Code, Kind
from stepgate.variable import Variable

Key = Union[str, int]


class Entry:
    """rows_max is None for a key that is not row-sparse. The value is kept until the ps have it."""

    def __init__(self, key: Key, value: np.ndarray, rows_max: Optional[int]) -> None:
        type_of(value.dtype)
        self.key, self.shape, self.dtype, self.rows_max = key, value.shape, value.dtype, rows_max
        self.value: Optional[np.ndarray] = value

    @property
    def element(self) -> np.dtype:
        """Of what is pushed: halves are summed as floats."""
        return np.dtype(np.float32) if self.dtype == np.float16 else self.dtype

    def contribution(self, values: Sequence[object]) -> Union[Dense, Rows]:
        if self.rows_max is None:
            return Dense(self.key, values, self.shape, self.element)
        return Rows(self.key, values, self.shape, self.element, self.rows_max)

    def check_out(self, array: object) -> None:
        if not isinstance(array, np.ndarray) or array.shape != self.shape or not array.flags.writeable or not np.can_cast(self.dtype, array.dtype, "same_kind"):
            raise error(Code.EINVAL, f"out of key {self.key!r} is no array of {list(self.shape)} that takes {self.dtype}")

    def declare(self, model: Model) -> Variable:
        options: dict[str, Value] = {"gradient_dtype": "f32"} if self.dtype == np.float16 else {}
        if self.rows_max is not None:
            options.update(rows_max=self.rows_max, row_mean="replicas")
        return model.variable(str(self.key), self.shape, self.dtype, Kind.TRAINED if self.rows_max is None else Kind.SPARSE, self.value, **options)


__all__ = ["Entry", "Key"]

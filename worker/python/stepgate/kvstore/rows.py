# SPDX-License-Identifier: BSD-3-Clause
"""RowSparse: some rows of a table."""
from __future__ import annotations

from typing import Optional

import numpy as np

from stepgate.error import error
from stepgate.structure import Code


class RowSparse:
    """data[i] is row indices[i] of a table of this shape; all other rows are zero. shape is needed where a key is initialized.

    As MXNet's, it is in order once it comes from a pull: indices rise, and none is there twice. What is pushed may be in any order; rows of the same index are added.
    """

    def __init__(self, data: object, indices: object, shape: Optional[tuple[int, ...]] = None) -> None:
        self.data, self.indices, self.shape = np.asarray(data), np.asarray(indices), shape
        if self.indices.ndim != 1 or (self.indices.size and self.indices.dtype.kind not in "iu"):
            raise error(Code.EINVAL, "indices of rows are a vector of integers")
        self.indices = self.indices.astype(np.int64, copy=False)
        if self.data.ndim < 1 or len(self.data) != len(self.indices):
            raise error(Code.EINVAL, f"there are {len(self.indices)} indices for data of shape {self.data.shape}", "give one row for each index")

    def __repr__(self) -> str:
        return f"RowSparse({self.data!r}, {self.indices!r}, shape={self.shape})"

    def dense(self) -> np.ndarray:
        """The whole table."""
        if self.shape is None or self.shape[1:] != self.data.shape[1:]:
            raise error(Code.EINVAL, f"rows of {self.data.shape[1:]} make no table of shape {self.shape}", "give RowSparse the shape of the whole table")
        check_rows(self.indices, self.shape[0])
        table = np.zeros(self.shape, self.data.dtype)
        np.add.at(table, self.indices, self.data)
        return table


def check_rows(indices: np.ndarray, rows: int) -> None:
    """A negative one would become a huge one on its way."""
    if indices.size and not (indices.min() >= 0 and indices.max() < rows):
        wrong = indices.min() if indices.min() < 0 else indices.max()
        raise error(Code.EINVAL, f"there is no row {wrong} in a table of {rows}")


__all__ = ["RowSparse", "check_rows"]

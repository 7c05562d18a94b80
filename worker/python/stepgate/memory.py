# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the library's as a buffer, without a copy."""
from __future__ import annotations

import ctypes

import numpy as np

from stepgate.structure import Type

# bfloat16, which numpy does not have, as its bits
NUMPY = {Type.F32: np.dtype(np.float32), Type.F64: np.dtype(np.float64), Type.F16: np.dtype(np.float16), Type.BF16: np.dtype(np.uint16)}
_NAMES = {"float32": Type.F32, "float64": Type.F64, "float16": Type.F16, "bfloat16": Type.BF16}


def type_of(dtype: object) -> Type:
    """Of a Type, a name such as "bfloat16", or anything that numpy takes for a dtype."""
    if isinstance(dtype, Type):
        return dtype
    name = dtype if isinstance(dtype, str) and dtype in _NAMES else np.dtype(dtype).name
    if name not in _NAMES:
        raise TypeError(f"a variable is of {', '.join(_NAMES)}, not {name}")
    return _NAMES[name]


def at(address: int, count: int, owner: object) -> ctypes.Array[ctypes.c_ubyte]:
    """count bytes at an address. Whatever is made of them (numpy.frombuffer, torch.frombuffer) keeps the owner alive, and with it the mapping."""
    buffer = (ctypes.c_ubyte * count).from_address(address)
    buffer.owner = owner
    return buffer


def array(buffer: ctypes.Array[ctypes.c_ubyte], kind: Type, shape: tuple[int, ...], writable: bool) -> np.ndarray:
    view = np.frombuffer(buffer, dtype=NUMPY[kind]).reshape(shape)
    view.flags.writeable = writable
    return view


__all__ = ["NUMPY", "type_of", "at", "array"]

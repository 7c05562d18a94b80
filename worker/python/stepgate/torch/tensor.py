# SPDX-License-Identifier: BSD-3-Clause
"""Tensors over the library's memory, without a copy."""
from __future__ import annotations

import torch

from stepgate import memory
from stepgate.error import error
from stepgate.structure import Code, Type
from stepgate.variable import Variable

TYPES = {torch.float32: Type.F32, torch.float64: Type.F64, torch.float16: Type.F16, torch.bfloat16: Type.BF16}
_TORCH = {kind: dtype for dtype, kind in TYPES.items()}


def need_host(name: str, tensor: torch.Tensor) -> None:
    """What stepgate moves is in the host's memory."""
    if tensor.device.type != "cpu" or tensor.dtype not in TYPES:
        raise error(Code.ENOTSUP, f"{name} is {tensor.dtype} on {tensor.device}", "parameters must be float32, float64, float16 or bfloat16, and on the CPU")


class Views:
    """Tensors of a variable at the few addresses that it has."""

    def __init__(self, variable: Variable) -> None:
        self._variable = variable
        self._tensors: dict[int, torch.Tensor] = {}

    def at(self, address: int) -> torch.Tensor:
        found = self._tensors.get(address)
        if found is None:
            one = self._variable
            buffer = memory.at(address, one.bytes, one.model._handle)
            found = self._tensors[address] = torch.frombuffer(buffer, dtype=_TORCH[one.dtype]).view(one.shape)
        return found

    def forget(self) -> None:
        """The addresses are of no use any more."""
        self._tensors.clear()


__all__ = ["TYPES", "Views", "need_host"]

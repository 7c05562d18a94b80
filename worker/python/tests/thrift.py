#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A thousand steps leave nothing behind, and copy nothing that is as large as a parameter: neither PyTorch, whose operations are counted, nor the library, which counts itself."""
import gc
import os
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import stepgate
import stepgate.torch

SIDE = 256
STEPS, WARM = 1000, 100
COPIES = ("copy_", "clone", "_to_copy", "contiguous", "cat", "stack")


class Copies(TorchDispatchMode):
    """Counts operations that copy as much as a parameter has."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.sums = 0

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        result = function(*arguments, **(options or {}))
        name = function.__name__.split(".")[0]
        if isinstance(result, torch.Tensor) and result.numel() >= SIDE * SIDE:
            self.sums += name in ("add_", "_foreach_add_")
            if name in COPIES:
                self.found.append(name)
        return result


def memory() -> int:
    """Bytes that are resident, and not the ps's."""
    with open("/proc/self/statm", encoding="ascii") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def network() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(SIDE, SIDE), torch.nn.BatchNorm1d(SIDE), torch.nn.Tanh(), torch.nn.Linear(SIDE, SIDE))


def steps(net: torch.nn.Module, optimizer: stepgate.torch.Optimizer, count: int, batch: torch.Tensor, careless: bool = False) -> None:
    for _ in range(count):
        if careless:
            net.zero_grad(set_to_none=True)
        optimizer.zero_grad()
        loss = net(batch).square().mean()
        loss.backward()
        optimizer.step(mean=loss.detach())


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> None:
    torch.set_num_threads(1)
    job = stepgate.torch.job()
    batch = torch.randn(4, SIDE)
    for apply in ("ps", "workers"):
        net = network()
        optimizer = stepgate.torch.Optimizer(torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9), net, apply=apply)
        assert optimizer.committed.in_place and not optimizer.committed.copies_push and not optimizer.committed.copies_pull, "the library copies"
        with Copies():
            steps(net, optimizer, WARM, batch)
        gc.collect()
        before, objects, files, copied = memory(), len(gc.get_objects()), descriptors(), job.stats.bytes_copied
        addresses = {parameter.grad.data_ptr() for parameter in net.parameters()}
        steps(net, optimizer, STEPS - 2 * WARM, batch)
        with Copies() as copies:
            steps(net, optimizer, WARM, batch)
        gc.collect()
        assert not copies.found, copies.found
        assert copies.sums >= 2 * WARM, copies.sums  # two weights: the operations were looked at
        assert job.stats.bytes_copied - copied < SIDE * SIDE * 4, job.stats.bytes_copied - copied
        assert addresses == {parameter.grad.data_ptr() for parameter in net.parameters()}, "gradients have left their slots"
        grown = memory() - before
        print(f"{apply}: {grown} bytes and {len(gc.get_objects()) - objects} objects more", flush=True)
        assert grown < 2 << 20, grown
        assert len(gc.get_objects()) - objects < STEPS / 4 and descriptors() <= files, "objects or descriptors are left"
        with Copies() as copies:
            steps(net, optimizer, 3, batch, careless=True)
        assert len(copies.found) >= 3 * 2, "a copy is not seen"


main()

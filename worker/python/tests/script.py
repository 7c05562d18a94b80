#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""script.py CASE -- a training script that knows nothing of jobs but the optimizer that wraps its own, when it is ended by something."""
import os
import signal
import sys
import threading

import torch

import stepgate
import stepgate.torch


def die(optimizer: stepgate.torch.Optimizer, parameter: torch.nn.Parameter) -> None:
    """In the middle of a backward pass: the last layer's gradients have been pushed."""
    if optimizer.rank == 1 and optimizer.info.step == 3:
        parameter.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def main() -> None:
    torch.manual_seed(1)
    network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = stepgate.torch.Optimizer(torch.optim.SGD(network.parameters(), lr=0.1), network)
    for step in range(6):
        if sys.argv[1] == "killed":
            die(optimizer, network[0].weight)
        if step == 3 and optimizer.rank == 1 and sys.argv[1] == "mistaken":
            raise ValueError("a mistake in the script")
        if step == 3 and sys.argv[1] == "interrupted":
            if optimizer.rank == 1:
                signal.pause()  # stepgate-run ends it
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        optimizer.zero_grad()
        network(optimizer.share(torch.ones(6, 4))).square().mean().backward()
        optimizer.step()


main()

#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rewound.py raised|called|alone|returned -- trains for some steps. In step 6 worker 0 has a checkpoint written; in step 9 it has the ps killed, by a file that it makes, and waits until it is
gone: the job goes back, and the script with it. `returned`: in step 9 worker 1 is killed, and comes back. Says what the network is in the end."""
import os
import pathlib
import signal
import sys
import time

import torch

import stepgate
import stepgate.torch

STEPS = 14


def main() -> None:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    network, steps = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1)), []
    called: list[int] = []
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    optimizer = stepgate.torch.Optimizer(optimizer, network, on_rewind=called.append if sys.argv[1] == "called" else None)
    kill, step = pathlib.Path(os.environ["STEPGATE_TEST_KILL"]), optimizer.info.step
    while step < STEPS:
        if sys.argv[1] == "returned" and optimizer.rank == 1 and step == 9 and not kill.exists():
            kill.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[1] in ("raised", "called") and optimizer.rank == 0:
            if step == 6 and not kill.exists():
                optimizer.model.checkpoint()
            if step == 9 and not kill.exists():
                kill.touch()
                while kill.stat().st_size == 0:
                    time.sleep(0.01)
        try:
            for group in optimizer.param_groups:
                group["lr"] = 0.05 / (1 + step)
            optimizer.zero_grad()
            batch = torch.randn(12, 4, generator=torch.Generator().manual_seed(step))
            network(optimizer.share(batch)).square().mean().backward()
            optimizer.step()
            step += 1
        except stepgate.Rewound as error:
            called.append(error.step)
        if called:
            step = called.pop()
            steps.append(step)
    with torch.no_grad():
        total = sum(tensor.double().abs().sum().item() for tensor in network.state_dict().values() if tensor.dtype == torch.float64)
    print(f"back to {steps}: {total.hex()} {optimizer.info.step}", flush=True)


main()

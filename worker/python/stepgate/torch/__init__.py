# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch on stepgate: an ordinary training script becomes one worker of several.

    import stepgate.torch
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    optimizer = stepgate.torch.Optimizer(optimizer, network)
    for images, labels in optimizer.shares(batches): ...
"""
from stepgate.torch.membership import job
from stepgate.torch.optimizer import Optimizer
from stepgate.torch.scaler import GradScaler

__all__ = ["GradScaler", "Optimizer", "job"]

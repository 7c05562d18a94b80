# SPDX-License-Identifier: BSD-3-Clause
"""GradScaler: what torch.cuda.amp's is, for a job. Who finds an infinity makes everybody skip the step, so that all workers have the same scale."""
from __future__ import annotations

from typing import Any

import torch

from stepgate.structure import Verdict
from stepgate.torch.optimizer import Optimizer


class GradScaler:
    """Of one optimizer, made with non_finite="skip":

        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    Gradients are divided by the scale as they are pushed.
    """

    def __init__(self, optimizer: Optimizer, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000) -> None:
        if optimizer._keys.get("non_finite") != "skip":
            raise ValueError('a scaled loss needs an optimizer made with non_finite="skip"')
        self._optimizer = optimizer
        self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
        self._growth = 0
        self._set(float(init_scale))

    def _set(self, scale: float) -> None:
        self._scale = scale
        self._optimizer._unscale = 1.0 / scale

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * self._scale

    def step(self, optimizer: Optimizer, *arguments: Any, **options: Any) -> Any:
        if optimizer is not self._optimizer:
            raise ValueError("this scaler is another optimizer's")
        return optimizer.step(*arguments, **options)

    def update(self) -> None:
        """After each step: a smaller scale where it was skipped, a greater one where none was for a while."""
        if self._optimizer.info.verdict == Verdict.SKIPPED:
            self._growth = 0
            self._set(self._scale * self._backoff_factor)
            return
        self._growth += 1
        if self._growth >= self._growth_interval:
            self._growth = 0
            self._set(self._scale * self._growth_factor)

    def get_scale(self) -> float:
        return self._scale

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth = state_dict["growth_interval"], state_dict["_growth_tracker"]
        self._set(state_dict["scale"])


__all__ = ["GradScaler"]

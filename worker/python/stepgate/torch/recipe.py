# SPDX-License-Identifier: BSD-3-Clause
"""Recipe: an optimizer of torch.optim in the words of the ps, where the ps has its formula."""
from __future__ import annotations

from typing import Any, Callable, Optional

import torch

from stepgate.error import error
from stepgate.options import Value
from stepgate.structure import Code

Keys = dict[str, Value]
Group = dict[str, Any]
ANOTHER_WAY = 'apply="workers" lets every worker apply the mean itself, with any optimizer'


def _refuse(group: Group, **usual: object) -> Optional[str]:
    for name, value in usual.items():
        if group.get(name, value) != value:
            return f"{name}={group[name]!r}"
    return None


def _sgd(group: Group) -> Keys:
    if not group["momentum"]:
        return {"optimizer": "sgd", "l2_decay": group["weight_decay"]}
    return {"optimizer": "nesterov" if group["nesterov"] else "momentum", "momentum": group["momentum"], "l2_decay": group["weight_decay"]}


def _adam(group: Group) -> Keys:
    return {"optimizer": "adam", "beta1": group["betas"][0], "beta2": group["betas"][1], "epsilon": group["eps"],
            "l2_decay": group["weight_decay"]}


def _sparse_adam(group: Group) -> Keys:
    """PyTorch's takes TensorFlow's formula here."""
    return {"optimizer": "adam", "beta1": group["betas"][0], "beta2": group["betas"][1], "epsilon": group["eps"], "formula": "tf", "l2_decay": 0}


def _adamw(group: Group) -> Keys:
    return {"optimizer": "adamw", "beta1": group["betas"][0], "beta2": group["betas"][1], "epsilon": group["eps"],
            "weight_decay": group["weight_decay"]}


def _rmsprop(group: Group) -> Keys:
    return {"optimizer": "rmsprop", "rho": group["alpha"], "epsilon": group["eps"], "momentum": group["momentum"],
            "l2_decay": group["weight_decay"]}


def _adagrad(group: Group) -> Keys:
    return {"optimizer": "adagrad", "initial_accumulator": group["initial_accumulator_value"], "epsilon": group["eps"],
            "l2_decay": group["weight_decay"]}


# Of an optimizer: its words, what its groups must not ask for, and what PyTorch calls its slots.
_KNOWN: dict[type, tuple[Callable[[Group], Keys], dict[str, object], dict[str, str]]] = {
    torch.optim.SGD: (_sgd, {"dampening": 0, "maximize": False}, {"momentum": "momentum_buffer"}),
    torch.optim.Adam: (_adam, {"amsgrad": False, "maximize": False}, {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}),
    torch.optim.SparseAdam: (_sparse_adam, {"maximize": False}, {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}),
    torch.optim.AdamW: (_adamw, {"amsgrad": False, "maximize": False}, {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}),
    torch.optim.RMSprop: (_rmsprop, {"centered": False, "maximize": False}, {"mean_square": "square_avg", "momentum": "momentum_buffer"}),
    torch.optim.Adagrad: (_adagrad, {"lr_decay": 0, "maximize": False}, {"accumulator": "sum"}),
}


class Recipe:
    """What the ps is told of an optimizer: the keys of the model, and of each group how much of the learning rate it has and whether it decays."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        known = _KNOWN[type(optimizer)]
        self._words, self._usual, self.slots = known
        self._name = type(optimizer).__name__
        rates = [group.get("initial_lr", group["lr"]) for group in optimizer.param_groups]
        self._base = max(range(len(rates)), key=lambda i: abs(rates[i]))  # the group whose rate is that of the model
        self.scales = [rate / rates[self._base] if rates[self._base] else 1.0 for rate in rates]
        self.decays = [bool(group.get("weight_decay", 0)) for group in optimizer.param_groups]

    @staticmethod
    def refusal(optimizer: torch.optim.Optimizer) -> Optional[str]:
        """Why the ps cannot apply it; None: it can."""
        known = _KNOWN.get(type(optimizer))
        if known is None:
            return f"{type(optimizer).__name__} has no formula on the ps"
        if optimizer.state:
            return f"this {type(optimizer).__name__} has a state already, and the ps begin without"
        for group in optimizer.param_groups:
            odd = _refuse(group, **known[1])
            if odd is not None:
                return f"the ps do not know {odd} of {type(optimizer).__name__}"
        return None

    def keys(self, groups: list[Group]) -> Keys:
        """The keys as the groups are now. They may change from step to step, each for all groups alike."""
        told = []
        for group in groups:
            odd = _refuse(group, **self._usual)
            if odd is not None:
                raise error(Code.ENOTSUP, f"the ps do not know {odd} of {self._name}", ANOTHER_WAY)
            told.append(self._words(group))
        rate = groups[self._base]["lr"]
        for number, (group, scale) in enumerate(zip(groups, self.scales)):
            if abs(group["lr"] - rate * scale) > 1e-6 * abs(rate * scale):
                raise error(Code.ENOTSUP, f"the learning rates of the groups have changed, but not alike: that of group {number} is {group['lr']}, not "
                            f"{rate * scale}", ANOTHER_WAY)
        decayed = "weight_decay" if "weight_decay" in told[0] else "l2_decay"
        decay = max(keys[decayed] for keys in told)
        for keys, decays in zip(told, self.decays):
            if keys[decayed] != (decay if decays else 0):
                raise error(Code.ENOTSUP, "groups decay by different numbers", f"give each group 0 or the same weight_decay; or {ANOTHER_WAY}")
            keys[decayed] = decay
            if keys != told[0]:
                raise error(Code.ENOTSUP, f"groups differ in more than learning rate and decay: {keys}, {told[0]}", ANOTHER_WAY)
        return {"formula": "torch", **told[0], "learning_rate": float(rate)}


__all__ = ["Recipe", "Keys", "ANOTHER_WAY"]

# SPDX-License-Identifier: BSD-3-Clause
"""MXNet's names of optimizers and their parameters, as keys of a model."""
from __future__ import annotations

from stepgate.error import error
from stepgate.options import Value
from stepgate.structure import Code

_NAMES = {"nag": "nesterov"}
_PARAMETERS = {"wd": "l2_decay", "clip_gradient": "clip_value"}
_DEFAULTS: dict[str, dict[str, Value]] = {"nag": {"momentum": 0.0}, "adam": {"learning_rate": 0.001}, "adamw": {"learning_rate": 0.001}}
_OTHERWISE = ("adagrad", "rmsprop")  # where MXNet's formula is another


def keys_of(name: str, parameters: dict[str, Value]) -> tuple[dict[str, Value], float]:
    """Keys of a model, and by how much gradients are scaled. What no model knows it refuses itself."""
    parameters = dict(parameters)
    scale = parameters.pop("rescale_grad", 1.0)
    if not isinstance(scale, (int, float)):
        raise error(Code.EINVAL, f"rescale_grad is a number, not {scale!r}")
    clip = parameters.get("clip_gradient")
    if clip is None or (isinstance(clip, (int, float)) and clip < 0):  # MXNet's ways to say that nothing is clipped
        parameters.pop("clip_gradient", None)
    elif name == "adam" and parameters.get("wd"):
        raise error(Code.ENOTSUP, "MXNet's adam clips what wd has been added to, and the ps do not", "give clip_value and l2_decay, which are applied in this order")
    keys = {**_DEFAULTS.get(name, {}), **{_PARAMETERS.get(key, key): value for key, value in parameters.items()}}
    if "update" in keys:
        raise error(Code.ENOTSUP, "how a step is made is the type of the store", "create dist_sync or dist_async")
    if name in _OTHERWISE and "formula" not in keys:
        raise error(Code.ENOTSUP, f"MXNet's formula of {name} is not there", "choose formula=\"tf\" or \"torch\"")
    if name == "sgd" and "momentum" in keys:
        if keys["momentum"]:
            name = "momentum"
        else:
            del keys["momentum"]
    return {"optimizer": _NAMES.get(name, name), **keys}, float(scale)


__all__ = ["keys_of"]

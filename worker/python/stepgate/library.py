# SPDX-License-Identifier: BSD-3-Clause
"""libstepgate.so.0: where it is, and the types of its functions. Calls release Python's lock."""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path

from stepgate.structure import (Contributions, ErrorInfo, Knob, LogFunction, ModelInfo, Stats, StepInfo, VariableInfo)

NAME = "libstepgate.so.0"
_STEP = POINTER(c_uint64)
_HANDLE = POINTER(c_void_p)
# name: type of the result, types of the arguments
_FUNCTIONS = {
    "strerror": (c_char_p, c_int), "error_class": (c_int, c_int), "exit_status": (c_int, c_int), "error_last": (c_int, POINTER(ErrorInfo)),
    "version": (c_char_p,),
    "options_new": (c_int, _HANDLE), "options_delete": (None, _HANDLE), "options_set": (c_int, c_void_p, c_char_p, c_char_p),
    "options_get": (c_int, c_void_p, c_char_p, POINTER(c_char_p)), "options_from_env": (c_int, c_void_p),
    "options_from_args": (c_int, c_void_p, POINTER(c_int), POINTER(c_char_p)), "options_list": (c_int, c_size_t, POINTER(Knob)),
    "options_log": (c_int, c_void_p, LogFunction, c_void_p, c_int),
    "job_join": (c_int, c_void_p, c_int, _HANDLE), "job_delete": (None, _HANDLE), "job_role": (c_int, c_void_p),
    "job_rank": (c_int, c_void_p), "job_size": (c_int, c_void_p), "job_servers": (c_int, c_void_p), "job_transport": (c_char_p, c_void_p),
    "job_fd": (c_int, c_void_p), "job_progress": (c_int, c_void_p), "job_interrupt": (None, c_void_p), "job_barrier": (c_int, c_void_p, c_int),
    "job_leave": (c_int, c_void_p, c_int), "job_error": (c_int, c_void_p, POINTER(ErrorInfo)), "job_stats": (c_int, c_void_p, POINTER(Stats)),
    "model_new": (c_int, c_void_p, c_char_p, _HANDLE), "model_delete": (None, _HANDLE),
    "model_variable": (c_int, c_void_p, c_char_p, c_int, c_int, c_int, _STEP, POINTER(c_int)),
    "model_variable_set": (c_int, c_void_p, c_int, c_char_p, c_char_p), "model_set": (c_int, c_void_p, c_char_p, c_char_p),
    "model_initialize": (c_int, c_void_p, c_int, c_void_p, c_uint64), "model_commit": (c_int, c_void_p, c_int, POINTER(ModelInfo)),
    "model_count": (c_int, c_void_p), "model_describe": (c_int, c_void_p, c_int, POINTER(VariableInfo)),
    "model_attach": (c_int, c_void_p, c_char_p, c_int, _HANDLE), "model_tune": (c_int, c_void_p, c_char_p, c_char_p, c_uint64),
    "model_slot_name": (c_char_p, c_void_p, ctypes.c_uint), "model_slot": (c_int, c_void_p, c_int, c_char_p, c_int, c_void_p, c_uint64, _STEP),
    "model_snapshot": (c_int, c_void_p, c_int, POINTER(c_int), c_size_t, POINTER(c_void_p), c_int, _STEP),
    "model_contributions": (c_int, c_void_p, c_int, c_int, POINTER(Contributions)), "checkpoint": (c_int, c_void_p, c_int, _STEP),
    "buffer_gradient": (c_int, c_void_p, c_int, _HANDLE), "buffer_parameter": (c_int, c_void_p, c_int, _HANDLE),
    "buffer_attach": (c_int, c_void_p, c_int, c_int, c_void_p, c_uint64), "buffer_attach_dmabuf": (c_int, c_void_p, c_int, c_int, c_int, c_uint64, c_uint64), "buffer_detach": (c_int, c_void_p, c_int, c_int),
    "buffer_is_idle": (c_int, c_void_p, c_int),
    "step_begin": (c_int, c_void_p, c_int, POINTER(StepInfo)), "step_pull": (c_int, c_void_p, c_int, c_int, _STEP),
    "step_pull_rows": (c_int, c_void_p, c_int, c_void_p, c_uint64, c_void_p, c_int, _STEP),
    "step_pulled": (c_int, c_void_p, c_int, _STEP, _STEP), "step_push": (c_int, c_void_p, c_int),
    "step_push_rows": (c_int, c_void_p, c_int, c_void_p, c_uint64, c_void_p), "step_absent": (c_int, c_void_p, c_int),
    "step_finish": (c_int, c_void_p, c_double), "step_abandon": (c_int, c_void_p),
}


def _places() -> list[str]:
    """In the order in which they are tried: what the environment says; beside an installed package, below the prefix; the build folder of the source tree; wherever the system looks."""
    if os.environ.get("STEPGATE_LIBRARY"):
        return [os.environ["STEPGATE_LIBRARY"]]
    here = Path(__file__).resolve()
    patterns = (f"lib/{NAME}", f"lib/*/{NAME}", f"lib64/{NAME}") if len(here.parents) > 4 else ()
    found = [str(path) for pattern in patterns for path in sorted(here.parents[4].glob(pattern))]
    if (here.parents[1] / "pyproject.toml").exists():
        found.insert(0, str(here.parents[3] / "build" / "lib" / NAME))
    return [path for path in found if os.path.exists(path)] + [NAME]


def _load() -> ctypes.CDLL:
    refusals = []
    for path in _places():
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            refusals.append(str(error))
    raise ImportError(f"{NAME} cannot be loaded ({'; '.join(refusals)}): set STEPGATE_LIBRARY to its path, for example build/lib/{NAME}")


class Library:
    """The functions without their stepgate_, e.g. library.step_begin."""

    def __init__(self) -> None:
        loaded = _load()
        for name, (result, *arguments) in _FUNCTIONS.items():
            function = getattr(loaded, "stepgate_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> ctypes._FuncPointer:  # for type checkers: all functions are set above
        raise AttributeError(f"stepgate_{name} is not bound")


library = Library()


def version() -> str:
    """Of the library in use."""
    return library.version().decode()


__all__ = ["library", "version", "byref"]

# SPDX-License-Identifier: BSD-3-Clause
"""The structs of include/stepgate/*.h that cross the library's border, and the numbers of their enums."""
from __future__ import annotations

import ctypes
from ctypes import c_char, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64
from enum import IntEnum
from typing import TypeVar

RANK_MAX = 8
NEVER = 2**64 - 1  # as a step: none


class Code(IntEnum):
    """enum stepgate_error_code"""
    OK = 0
    EAGAIN = 1
    EINTR = 2
    ETIMEOUT = 3
    ENOMEM = 4
    ELIMIT = 5
    EBUSY = 6
    ESYSTEM = 7
    EREWOUND = 8
    EINVAL = 20
    EALREADY = 21
    ESTATE = 22
    ENOENT = 23
    ENOTSUP = 24
    EACCESS = 25
    EFORKED = 26
    EOVERSIZE = 27
    EPEER = 40
    EREFUSED = 41
    EUNREACHABLE = 42
    EPROTOCOL = 43
    EVERSION = 44
    EWRONGJOB = 45
    EAUTH = 46
    EDEVICE = 60
    ENODEVICE = 61
    EADDRESS = 62
    EMISMATCH = 80
    ERANK = 81
    EJOIN = 82
    ELOST = 83
    EENDED = 84
    ESTEPTIME = 85
    ENONFINITE = 86


class ErrorClass(IntEnum):
    """enum stepgate_error_class: what a caller must throw away"""
    NONE = 0
    ARGUMENT = 1
    OPERATION = 2
    PEER = 3
    DEVICE = 4
    JOB = 5


class Role(IntEnum):
    """enum stepgate_role"""
    NONE = 0
    WORKER = 1
    PS = 2
    OBSERVER = 3


class Level(IntEnum):
    """enum stepgate_log_level"""
    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


class Kind(IntEnum):
    """enum stepgate_kind: what happens to a variable"""
    TRAINED = 1
    SPARSE = 2
    ASSIGNED = 3
    AUX = 4


class Type(IntEnum):
    """enum stepgate_dtype: what an element is"""
    F32 = 1
    F64 = 2
    F16 = 3
    BF16 = 4

    @property
    def bytes(self) -> int:
        return {Type.F32: 4, Type.F64: 8, Type.F16: 2, Type.BF16: 2}[self]


class Use(IntEnum):
    """enum stepgate_use: of a caller's buffer"""
    GRADIENT = 1
    PARAMETER = 2


class Verdict(IntEnum):
    """enum stepgate_verdict: what became of a contribution"""
    NONE = 0
    APPLIED = 1
    EMPTY = 2
    STALE = 3
    NON_FINITE = 4
    SKIPPED = 5


class What(IntEnum):
    """enum stepgate_what: of a snapshot"""
    PARAMETERS = 1
    AVERAGES = 2


class ErrorInfo(ctypes.Structure):
    """struct stepgate_error"""
    _fields_ = [("size", c_size_t), ("code", c_int), ("os_errno", c_int), ("role", c_int), ("rank", c_int), ("step", c_uint64),
                ("waited_ms", c_int64), ("host", c_char * 64), ("device", c_char * 64), ("text", c_char * 512), ("remedy", c_char * 256)]


class Knob(ctypes.Structure):
    """struct stepgate_knob"""
    _fields_ = [(name, c_char_p) for name in ("name", "environment", "flag", "unit", "fallback", "help", "value")]


class Stats(ctypes.Structure):
    """struct stepgate_job_stats: counters since the join"""
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "steps", "bytes_pushed", "bytes_pulled", "bytes_copied", "pushes", "pulls", "wait_ns", "pull_retries", "reconnects")]


class ModelInfo(ctypes.Structure):
    """struct stepgate_model_info: what commit has to tell"""
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("bytes", c_uint64), ("restored", c_int), ("in_place", c_int),
                ("copies_push", c_uint32), ("copies_pull", c_uint32), ("checkpoints", c_int), ("sets", c_int)]


class VariableInfo(ctypes.Structure):
    """struct stepgate_variable_info"""
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("kind", c_int), ("dtype", c_int), ("rank", c_int), ("dims", c_uint64 * RANK_MAX),
                ("elements", c_uint64), ("bytes", c_uint64), ("gradient_dtype", c_int), ("rows_max", c_uint64), ("gradient_bytes", c_uint64)]


class StepInfo(ctypes.Structure):
    """struct stepgate_step_info: what begin has to tell"""
    _fields_ = [("size", c_size_t), ("step", c_uint64), ("rewound", c_int), ("verdict", c_int), ("verdict_step", c_uint64),
                ("replicas_to_aggregate", c_uint32), ("total_num_replicas", c_uint32), ("staleness", c_uint64)]


class Contributions(ctypes.Structure):
    """struct stepgate_contributions: what became of those of one worker"""
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in ("accepted", "stale", "non_finite", "empty")]


LogFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, c_int, c_char_p)
STRUCTS = {"stepgate_error": ErrorInfo, "stepgate_knob": Knob, "stepgate_job_stats": Stats, "stepgate_model_info": ModelInfo,
           "stepgate_variable_info": VariableInfo, "stepgate_step_info": StepInfo, "stepgate_contributions": Contributions}

_Sized = TypeVar("_Sized", ErrorInfo, Stats, ModelInfo, VariableInfo, StepInfo, Contributions)


def sized(kind: type[_Sized]) -> _Sized:
    """A struct that says how long it is, as the library wants it."""
    return kind(size=ctypes.sizeof(kind))


def dims(shape: tuple[int, ...]) -> ctypes.Array[c_uint64]:
    return (c_uint64 * max(len(shape), 1))(*shape)


__all__ = ["Code", "ErrorClass", "Role", "Level", "Kind", "Type", "Use", "Verdict", "What", "ErrorInfo", "Knob", "Stats", "ModelInfo",
           "VariableInfo", "StepInfo", "Contributions", "LogFunction", "STRUCTS", "NEVER", "RANK_MAX", "sized", "dims"]

# SPDX-License-Identifier: BSD-3-Clause
"""The job of a script that says nothing about jobs: joined once, by what stepgate-run has put into the environment; errors end the script as they end any program of a job."""
from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Callable, Optional, Type

from stepgate.error import Error
from stepgate.job import Job
from stepgate.structure import Level

_job: Optional[Job] = None
_hooked = False
_Hook = Callable[[Type[BaseException], BaseException, Optional[TracebackType]], object]


def _say(level: Level, line: str) -> None:
    print(f"stepgate: {line}", file=sys.stderr, flush=True)


def _end_with_one_line(before: _Hook) -> _Hook:
    def hook(kind: Type[BaseException], value: BaseException, trace: Optional[TracebackType]) -> None:
        if not isinstance(value, Error):
            before(kind, value, trace)
            return
        print(f"{os.path.basename(sys.argv[0])}: {value}", file=sys.stderr, flush=True)
        raise SystemExit(value.exit_status)
    return hook


def job() -> Job:
    """The job of this process. An error of stepgate's that nobody catches is one line, and the exit status says whether another try may help (75)."""
    global _job, _hooked
    if not _hooked:
        sys.excepthook, _hooked = _end_with_one_line(sys.excepthook), True
    if _job is None or _job.closed:
        _job = Job(log=_say)
    return _job


__all__ = ["job"]

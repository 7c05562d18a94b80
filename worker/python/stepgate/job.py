# SPDX-License-Identifier: BSD-3-Clause
"""Job: membership of this process in a job."""
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Callable

from stepgate.error import Error, check, error
from stepgate.library import byref, library
from stepgate.options import Log, Options, Value
from stepgate.structure import Code, Level, Role, Stats, sized
from stepgate.wait import wait

if TYPE_CHECKING:
    from stepgate.model import Model

GRACE_SECONDS = 1.0  # the library, which knows who is late, speaks first


class Handle:
    """The library's job. It lives as long as somebody refers to it: views of its memory do."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()

    def delete(self) -> None:
        library.job_delete(byref(self.pointer))

    def __del__(self) -> None:
        self.delete()


_open: weakref.WeakSet[Job] = weakref.WeakSet()


class Job:
    """Joined when it is made: by what stepgate-run has put into the environment, and by `knobs`, of which ps_hosts, workers and task_index are needed otherwise.

        with stepgate.Job() as job: ...

    The block leaves the job at its end. Where it ends with an exception there is no good-bye, and the ps take this worker for lost, as they do when a process dies. At the end of
    the program jobs that are still open are closed in the same way.

    timeout, here and elsewhere, is in seconds; None: the job's knob. Every wait can be interrupted by a signal (Ctrl-C).
    """

    def __init__(self, *, options: Options | None = None, timeout: float | None = None, log: Log | None = None, level: Level = Level.INFO,
                 **knobs: Value) -> None:
        self.options = options if options is not None else Options(log=log, level=level, **knobs)
        self._handle: Handle | None = Handle()
        self._models: list[Model] = []
        self._before_close: list[Callable[[], None]] = []
        self._process = os.getpid()
        handle = self._handle
        try:
            wait(lambda: check(library.job_fd(handle.pointer)),
                 lambda ms: library.job_join(self.options._pointer, ms, byref(handle.pointer)), self._deadline(timeout, "join_timeout"))
        except BaseException:
            handle.delete()
            raise
        _open.add(self)

    def _deadline(self, timeout: float | None, knob: str) -> float | None:
        if timeout is not None:
            return timeout
        seconds = self.options.seconds(knob)
        return None if seconds is None else seconds + GRACE_SECONDS

    @property
    def _pointer(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise error(Code.ESTATE, "the job is closed", "join anew")
        return self._handle.pointer

    def _wait(self, attempt: Callable[[int], int], timeout: float | None, knob: str) -> int:
        return wait(lambda: check(library.job_fd(self._pointer)), attempt, self._deadline(timeout, knob))

    @property
    def role(self) -> Role:
        return Role(check(library.job_role(self._pointer)))

    @property
    def rank(self) -> int:
        """0 .. size - 1; of an observer -1"""
        return library.job_rank(self._pointer)

    @property
    def size(self) -> int:
        """The number of workers."""
        return check(library.job_size(self._pointer))

    @property
    def servers(self) -> int:
        """The number of ps."""
        return check(library.job_servers(self._pointer))

    @property
    def transport(self) -> str:
        """"shm", "verbs" or "shm+verbs" """
        return library.job_transport(self._pointer).decode()

    @property
    def stats(self) -> Stats:
        stats = sized(Stats)
        check(library.job_stats(self._pointer, byref(stats)))
        return stats

    @property
    def closed(self) -> bool:
        return self._handle is None

    def fileno(self) -> int:
        """For event loops: readable when repeating a call that timed out may help."""
        return check(library.job_fd(self._pointer))

    def progress(self) -> None:
        """Moves events and heartbeats on; for service=off."""
        check(library.job_progress(self._pointer))

    def barrier(self, timeout: float | None = None) -> None:
        """Returns when every worker of the job is in it."""
        self._wait(lambda ms: library.job_barrier(self._pointer, ms), timeout, "join_timeout")

    def model(self, name: str, **keys: Value) -> Model:
        """An empty model, with the keys of stepgate_model_set (include/stepgate/model.h)."""
        from stepgate.model import Model
        model = Model(self, name)
        for key, value in keys.items():
            model.set(key, value)
        return model

    def attach(self, name: str, timeout: float | None = None) -> Model:
        """A model that others train, for an observer (job_name="observer")."""
        from stepgate.model import Model
        return Model(self, name, attach=True, timeout=timeout)

    def leave(self, timeout: float | None = None) -> None:
        """Says good-bye to every ps: this worker is done, and nothing but close is left."""
        self._wait(lambda ms: library.job_leave(self._pointer, ms), timeout, "close_timeout")

    def before_close(self, function: Callable[[], None]) -> None:
        """To be called while the job's memory is still there."""
        self._before_close.append(function)

    def close(self, leave: bool = True) -> None:
        """Leaves, unless told not to, and lets everything go. Arrays that were handed out keep their memory after a leave; without one it is gone at once."""
        if self._handle is None or os.getpid() != self._process:
            self._handle = None
            return
        try:
            for function in self._before_close:
                function()
            if leave:
                self.leave()
        except BaseException:
            self._handle.delete()
            raise
        finally:
            if not leave:
                self._handle.delete()
            self._handle = None
            _open.discard(self)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close(leave=kind is None)


def _at_exit() -> None:
    """The interpreter says of an exception that nobody caught what it was."""
    well = getattr(sys, "last_value", None) is None
    for job in list(_open):
        try:
            job.close(leave=well)
        except Error as late:
            print(f"stepgate: {late}", file=sys.stderr)


atexit.register(_at_exit)

__all__ = ["Job"]

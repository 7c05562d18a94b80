# SPDX-License-Identifier: BSD-3-Clause
"""Errors as exceptions: a class for each error class of the library, which says what must be thrown away."""
from __future__ import annotations

from stepgate.library import byref, library
from stepgate.structure import NEVER, Code, ErrorClass, ErrorInfo, Role, sized


class Error(Exception):
    """What went wrong: `text` is one complete line, `remedy` says what to do ("" if there is nothing).

    code         of enum Code, e.g. Code.ELOST
    role, rank   of the peer concerned; Role.NONE, None
    host         of that peer; ""
    device       e.g. "rxe0" or "shm"; ""
    step         concerned; None
    waited       seconds that the call had waited; None
    os_errno     of the operating system; 0
    exit_status  what a program that ends because of this should exit with: 75 when another try may help
    """

    def __init__(self, code: Code, text: str, remedy: str = "", info: ErrorInfo | None = None) -> None:
        self.code, self.remedy = code, remedy
        self.say(text)
        self.role = Role(info.role) if info else Role.NONE
        self.rank = info.rank if info and info.rank >= 0 else None
        self.host = info.host.decode(errors="replace") if info else ""
        self.device = info.device.decode(errors="replace") if info else ""
        self.step = info.step if info and info.step != NEVER else None
        self.waited = info.waited_ms / 1000 if info and info.waited_ms >= 0 else None
        self.os_errno = info.os_errno if info else 0
        self.exit_status: int = library.exit_status(code)

    def say(self, text: str) -> None:
        self.text = text
        self.args = (text if not self.remedy else f"{text}: {self.remedy}",)

    @property
    def name(self) -> str:
        """e.g. "STEPGATE_ELOST" """
        return "STEPGATE_" + self.code.name


class ArgumentError(Error):
    """The call was wrong, and nothing has changed."""


class OperationError(Error):
    """This call failed; it may be repeated."""


class TimedOut(OperationError, TimeoutError):
    """The deadline of this call passed; nothing is lost, and it may be repeated."""


class Rewound(OperationError):
    """The job goes back to a checkpoint: what was done since is void. Of a model: call begin, whose answer says `rewound`. Of stepgate.torch.Optimizer: `step` is the one to go on
    with."""

    def __init__(self, code: Code, text: str, remedy: str = "", info: ErrorInfo | None = None, step: int | None = None) -> None:
        super().__init__(code, text, remedy, info)
        if step is not None:
            self.step = step


class PeerError(Error):
    """The connection to one peer is of no use any more."""


class DeviceError(Error):
    """A device is of no use any more."""


class JobError(Error):
    """The job is of no use any more: close it."""


_CLASSES: dict[int, type[Error]] = {ErrorClass.ARGUMENT: ArgumentError, ErrorClass.OPERATION: OperationError, ErrorClass.PEER: PeerError,
                                    ErrorClass.DEVICE: DeviceError, ErrorClass.JOB: JobError}


def error(code: Code, text: str, remedy: str = "", info: ErrorInfo | None = None) -> Error:
    """The exception for a code."""
    kind = {Code.ETIMEOUT: TimedOut, Code.EREWOUND: Rewound}.get(code) or _CLASSES.get(library.error_class(code), Error)
    return kind(code, text, remedy, info)


def last(result: int) -> Error:
    """The exception for the negative result of a call that this thread has just made."""
    code, info = Code(-result), sized(ErrorInfo)
    library.error_last(byref(info))
    if info.code != code:  # a code that has no text, or is repeated
        return error(code, library.strerror(code).decode())
    return error(code, info.text.decode(errors="replace"), info.remedy.decode(errors="replace"), info)


def check(result: int) -> int:
    """The result of a call, or its error as an exception."""
    if result < 0:
        raise last(result)
    return result


__all__ = ["Error", "ArgumentError", "OperationError", "TimedOut", "Rewound", "PeerError", "DeviceError", "JobError", "error", "last", "check"]

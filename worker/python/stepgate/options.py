# SPDX-License-Identifier: BSD-3-Clause
"""Options: the knobs of a job, which `stepgate-run --help` lists."""
from __future__ import annotations

import ctypes
import re
import sys
from typing import Callable, Iterator, Union

from stepgate.error import check
from stepgate.library import byref, library
from stepgate.structure import Knob, Level, LogFunction

Value = Union[str, int, float, bool, None]
Log = Callable[[Level, str], None]
_UNITS = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000}


def text_of(value: Value) -> bytes:
    """As the library reads it; a float with all its digits."""
    if isinstance(value, bool):
        return b"yes" if value else b"no"
    return (repr(value) if isinstance(value, float) else str(value)).encode()


class Options:
    """From the environment (STEPGATE_PS_HOSTS, ...), where stepgate-run puts them, and then `knobs`, by name."""

    def __init__(self, *, environment: bool = True, log: Log | None = None, level: Level = Level.INFO, **knobs: Value) -> None:
        self._pointer = ctypes.c_void_p()
        check(library.options_new(byref(self._pointer)))
        self._log = None
        if environment:
            check(library.options_from_env(self._pointer))
        for name, value in knobs.items():
            self[name] = value
        if log is not None:
            self._log = LogFunction(lambda _, level, line: log(Level(level), line.decode(errors="replace")))
            check(library.options_log(self._pointer, self._log, None, level))

    def __del__(self) -> None:
        library.options_delete(byref(self._pointer))

    def __setitem__(self, name: str, value: Value) -> None:
        text = ("on" if value else "off").encode() if isinstance(value, bool) else text_of(value)
        check(library.options_set(self._pointer, name.encode(), text))

    def __getitem__(self, name: str) -> str:
        text = ctypes.c_char_p()
        check(library.options_get(self._pointer, name.encode(), byref(text)))
        return (text.value or b"").decode()

    def take(self, arguments: list[str]) -> list[str]:
        """Takes --name value and --name=value for every knob; returns what is left, for the program itself."""
        count = ctypes.c_int(len(arguments) + 1)
        argv = (ctypes.c_char_p * (len(arguments) + 2))(sys.argv[0].encode(), *[one.encode() for one in arguments], None)
        check(library.options_from_args(self._pointer, byref(count), argv))
        return [argv[i].decode() for i in range(1, count.value)]

    def seconds(self, name: str) -> float | None:
        """A knob that is a time; None: off."""
        found = re.fullmatch(r"(\d+)([a-z]*)", self[name])
        return int(found[1]) * _UNITS[found[2]] / 1000 if found and int(found[1]) else None


def knobs() -> Iterator[dict[str, str]]:
    """The table of all knobs: name, environment, flag, unit, fallback, help, value."""
    knob, index = Knob(), 0
    while library.options_list(index, byref(knob)) == 0:
        yield {name: (getattr(knob, name) or b"").decode() for name, _ in Knob._fields_}
        index += 1


__all__ = ["Options", "Value", "Log", "text_of", "knobs"]

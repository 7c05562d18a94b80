# SPDX-License-Identifier: BSD-3-Clause
"""Waiting: a call that is tried again whenever the job's descriptor says that it may help. Python sleeps in poll(), which a signal ends at once: its handler runs, and may raise."""
from __future__ import annotations

import re
import select
import time
from typing import Callable

from stepgate.error import Error, check, error, last
from stepgate.library import library
from stepgate.structure import Code

LOOK_SECONDS = 0.2  # several threads may sleep on one job, and one may take the news of another


def _late(attempt: Callable[[int], int], waited: float) -> int:
    """One more try, for what it has to say about who is missing; it has waited for a millisecond, and this call for longer."""
    result = attempt(1)
    if result >= 0:
        return result
    said: Error = last(result)
    late = error(said.code, re.sub(r"within \d+ ms", f"within {round(1000 * waited)} ms", said.text), said.remedy)
    late.waited = waited
    raise late


def wait(descriptor: Callable[[], int], attempt: Callable[[int], int], seconds: float | None) -> int:
    """What attempt(milliseconds) returns in the end. seconds: 0 tries once, None has no deadline but those that the job has itself."""
    begin = time.monotonic()
    result = attempt(0)
    if result != -Code.EAGAIN:
        return check(result)
    poll = select.poll()
    poll.register(descriptor(), select.POLLIN)
    while True:
        waited = time.monotonic() - begin
        if seconds is not None and waited >= seconds:
            return _late(attempt, waited)
        left = LOOK_SECONDS if seconds is None else min(LOOK_SECONDS, seconds - waited)
        poll.poll(1000 * left)
        result = attempt(0)
        if result != -Code.EAGAIN:
            return check(result)


__all__ = ["wait"]

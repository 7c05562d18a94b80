# SPDX-License-Identifier: BSD-3-Clause
"""Waiting: a call that is tried again whenever the job's descriptor says that it may help. Python sleeps in poll(), which a signal ends at once: its handler runs, and may raise."""
from __future__ import annotations

import os
import re
import select
import time
from typing import Callable

from stepgate.error import check, last
from stepgate.structure import Code

YIELDS = 20  # a sleep costs more than a short step: others of this processor go first so often before it
LOOK_SECONDS = 0.2  # several threads may sleep on one job, and one may take the news of another


def _late(attempt: Callable[[int], int], waited: float) -> int:
    """One more try, for what it has to say about who is missing; it has waited for a millisecond, and this call for longer."""
    result = attempt(1)
    if result >= 0:
        return result
    late = last(result)
    late.say(re.sub(r"within \d+ ms", f"within {round(1000 * waited)} ms", late.text))
    late.waited = waited
    raise late


def wait(descriptor: Callable[[], int], attempt: Callable[[int], int], seconds: float | None) -> int:
    """What attempt(milliseconds) returns in the end. seconds: 0 tries once, None has no deadline but those that the job has itself."""
    begin, tries, poll = time.monotonic(), 0, select.poll()
    while (result := attempt(0)) == -Code.EAGAIN:
        waited = time.monotonic() - begin
        if seconds is not None and waited >= seconds:
            return _late(attempt, waited)
        tries += 1
        if tries < YIELDS:
            os.sched_yield()
            continue
        if tries == YIELDS:
            poll.register(descriptor(), select.POLLIN)
        left = LOOK_SECONDS if seconds is None else min(LOOK_SECONDS, seconds - waited)
        poll.poll(1000 * left)
    return check(result)


__all__ = ["wait"]

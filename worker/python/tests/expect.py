# SPDX-License-Identifier: BSD-3-Clause
"""expect -- what the programs here ask of a call."""
from typing import Callable


def raised(kind: type[BaseException], call: Callable[[], object]) -> BaseException:
    """What a call must raise."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")

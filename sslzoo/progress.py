"""The one progress line: how far long work is, at a terminal and nowhere else."""

import sys
import time
from collections.abc import Callable


def line(what: str, shown: bool | None = None, after: float = 0.0) -> Callable[[int, int], None]:
    """A callable (done, total) that keeps one line of standard error up to date, and clears it at the end.

    Args:
        what: str, which work ("embedded").
        shown: bool; None shows it if standard error is a terminal.
        after: seconds to wait first: quick work shows nothing.
    """
    if not (sys.stderr.isatty() if shown is None else shown):
        return lambda done, total: None
    began = time.monotonic()

    def show(done, total):
        if time.monotonic() - began >= after:
            end = "\r" + " " * 60 + "\r" if done == total else ""
            print(f"\r{what}: {done:,} of {total:,}  {end}", end="", file=sys.stderr, flush=True)

    return show

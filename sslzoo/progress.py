"""The one progress line: how far long work is, at a terminal or in a notebook; elsewhere a line each half minute."""

import math
import shutil
import sys
import time
from collections.abc import Callable

LOGGED = 30  # seconds between two lines in a log


def line(what: str, shown: bool | None = None, after: float = 0.0) -> Callable[[int, int], None]:
    """A callable (done, total) that keeps one line of standard error up to date, and clears it at the end.

    In a log, where nothing can be cleared, work of more than `LOGGED` seconds adds a line at most so often.

    Args:
        what: str, which work ("embedded").
        shown: bool; None shows it in place if somebody looks (standard error is a terminal, or that of a notebook).
        after: seconds to wait first: quick work shows nothing.
    """
    began = time.monotonic()
    if shown is False:
        return lambda done, total: None
    if shown is None and not (sys.stderr.isatty() or in_notebook()):
        return _logged(what, began)

    in_place = _notebook_line() if in_notebook() else None

    def show(done, total):
        if time.monotonic() - began < after:
            return
        if in_place:
            in_place(f"{what}: {done:,} of {total:,}", done == total)
        else:
            end = "\r" + " " * 60 + "\r" if done == total else ""
            print(f"\r{what}: {done:,} of {total:,}  {end}", end="", file=sys.stderr, flush=True)

    return show


def _logged(what, began):
    last = began

    def show(done, total):
        nonlocal last
        now = time.monotonic()
        if done < total and now - last >= LOGGED:
            last = now
            print(f"{what}: {done:,} of {total:,} after {(now - began) / 60:.1f} minutes", file=sys.stderr, flush=True)

    return show


def _notebook_line():
    """A callable (text, last) that shows one line below a cell, five times a second at most; empty in the end.

    A notebook would keep each state of a line on standard error.
    """
    from IPython.display import DisplayHandle

    handle, shown = DisplayHandle(), -math.inf

    def show(text, last):
        nonlocal shown
        if not last and time.monotonic() - shown < 0.2:
            return
        first, shown = shown == -math.inf, time.monotonic()
        (handle.display if first else handle.update)({"text/plain": "" if last else text}, raw=True)

    return show


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which shows standard error as it comes though it is no terminal."""
    shell = sys.modules["IPython"].get_ipython() if hasattr(sys.modules.get("IPython"), "get_ipython") else None
    return hasattr(shell, "kernel")


def say(text: str) -> None:
    """Prints a line of its own on standard output; at a terminal, in place of a progress line that stands there."""
    live = sys.stdout.isatty()
    clear = "\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r" if live else ""
    print(clear + text, flush=True)


def duration(seconds: float) -> str:
    """Seconds in words: "12 s", "5 min", "2.3 h"."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

"""The one progress line: how far long work is, at a terminal or in a notebook, and nowhere else."""

import math
import shutil
import sys
import time
from collections.abc import Callable


def line(what: str, shown: bool | None = None, after: float = 0.0) -> Callable[[int, int], None]:
    """A callable (done, total) that keeps one line of standard error up to date, and clears it at the end.

    Args:
        what: str, which work ("embedded").
        shown: bool; None shows it if somebody looks: standard error is a terminal, or that of a notebook.
        after: seconds to wait first: quick work shows nothing.
    """
    began = time.monotonic()
    if shown is False or (shown is None and not (sys.stderr.isatty() or in_notebook())):
        return lambda done, total: None

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

"""The one progress line: how far long work is, at a terminal or in a notebook, and nowhere else."""

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

    def show(done, total):
        if time.monotonic() - began >= after:
            end = "\r" + " " * 60 + "\r" if done == total else ""
            print(f"\r{what}: {done:,} of {total:,}  {end}", end="", file=sys.stderr, flush=True)

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

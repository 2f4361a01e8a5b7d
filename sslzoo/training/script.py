"""A recipe from the shell: what the user can mend is one line, without a traceback."""

import contextlib
import os
import sys
from collections.abc import Callable

from sslzoo import processes
from sslzoo.environment import in_a_line, silence_closed
from sslzoo.errors import SSLZooError


def script(main: Callable) -> None:
    """Runs a recipe's `main` from the shell: errors that the user can correct are one line, without a traceback.

    Exit codes are those of `sslzoo`: 0 success, 1 another process of the run was lost, 2 an explained error, 130 after
    Ctrl-C.
    """
    with patience():
        try:
            main()
        except (SSLZooError, OSError, ImportError) as error:
            advice = "Make room, or give permission; if the run had a checkpoint, go on with --resume."
            print(in_a_line(error, advice), file=sys.stderr)
            sys.exit(2)
        except KeyboardInterrupt:
            print("Interrupted. If the run had a checkpoint, go on with --resume.", file=sys.stderr)
            sys.exit(130)


@contextlib.contextmanager
def patience():
    """Inside, no run ends because nobody reads what it prints, and one that lost another process ends at once."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed when Python began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        # Whoever reads a log or a pipe sees each line as it comes; letters that it has not are written as escapes.
        sys.stdout.reconfigure(line_buffering=True, errors="backslashreplace")
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_Patient, streams)
    try:
        yield
    except Exception as error:
        processes.end_if_lost(error)
        raise
    finally:
        sys.stdout, sys.stderr = streams
        silence_closed()


class _Patient:
    """A stream to print to that lets nobody fail: a closed pipe or a full disk of logs must not end a run."""

    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        try:
            return self.stream.write(text)
        except (OSError, ValueError, RuntimeError):  # the last of a signal's handler that interrupts a line
            return len(text)

    def flush(self):
        with contextlib.suppress(OSError, ValueError):
            self.stream.flush()

    def __getattr__(self, name):
        return getattr(self.stream, name)

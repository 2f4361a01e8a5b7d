"""What a command is made of: a function, its arguments, and its answer."""

import argparse
import dataclasses
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from sslzoo.checks import SEED_LIMIT
from sslzoo.errors import InvalidInputError, printable
from sslzoo.files import as_path


class Answer(NamedTuple):
    """What a command found: a record for `--json`, a text for people (`raw`: for programs), and the exit code."""

    record: object
    text: str
    code: int = 0
    raw: bool = False


@dataclasses.dataclass(frozen=True)
class Command:
    """A function that the shell can call. Its docstring is its help, and its parameters are its arguments.

    Attributes:
        run: takes the arguments by name, gives an `Answer`.
        arguments: what `argument` made.
        prints: whether it uses standard output itself, which otherwise is kept for the answer.
    """

    run: Callable[..., Answer]
    arguments: tuple
    prints: bool = False

    def add_to(self, commands) -> None:
        """Adds its parser to those of a program."""
        description, _, examples = inspect.getdoc(self.run).partition("examples:\n")
        parser = commands.add_parser(
            self.run.__name__.rstrip("_"),
            help=description.partition("\n")[0],
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # --labels is none of --labels-per-class
        )
        parser.set_defaults(command=self)
        for name, kind in TYPES.items():
            parser.register("type", name, kind)
        parser.add_argument("--json", action="store_true", help="print JSON, and nothing else, on standard output")
        for names, options in self.arguments:
            parser.add_argument(*names, **options)


def command(*arguments, prints: bool = False) -> Callable:
    """Makes a `Command` of a function."""
    return lambda run: Command(run, arguments, prints)


def argument(*names, **options) -> tuple:
    """What `argparse` is to add; `type` is one of `TYPES`, by default a text."""
    return names, options


# ------------------------------------------------------------------ types


def _text(given):
    """An argument that says something. Empty ones, most likely of a variable that is not set, would mean "." or all."""
    if not given:
        raise argparse.ArgumentTypeError("must not be empty")
    return given


def _number(kind, least, limit):
    def parse(given):
        value = kind(given)
        if not least <= value < limit:
            raise argparse.ArgumentTypeError(f"must be at least {least} and less than {limit}, not {value}")
        return value

    return parse


TYPES = {
    None: _text,
    "path": lambda given: as_path(_text(given)),
    "column": lambda given: int(given) if given.isdecimal() else _text(given),
    "positive integer": _number(int, 1, SEED_LIMIT),
    "seed": _number(int, 0, SEED_LIMIT),
    "share": _number(float, 0, 1),
    "rate": _number(float, 1e-9, 1e9),
}


def check_output(file: Path, force: bool, flag: str = "--output") -> None:
    """Raise `InvalidInputError` unless a file can be written there, and may be."""
    if file.is_dir() or not file.parent.is_dir():
        raise InvalidInputError(f"{flag} must be a file in a folder that exists. Received: '{file}'")
    if not os.access(file.parent, os.W_OK):
        raise InvalidInputError(f"{flag} must be in a folder that can be written. Received: '{file}'")
    if file.exists() and not force:
        raise InvalidInputError(f"The file exists; --force replaces it. Received: '{file}'")


def check_page(file: "Path | None", force: bool) -> None:
    """Raise `InvalidInputError` unless a page, if one is asked for, can be written; and for `force` without one."""
    if file:
        check_output(file, force, "--html")
    elif force:
        raise InvalidInputError("--force overwrites the page of --html. Received: --force without --html")


def say(remarks: Iterable[str], skipped: Iterable = ()) -> dict:
    """Prints what is to be known of an answer to standard error; gives what its record says of it.

    Args:
        remarks: texts.
        skipped: (image, reason) of each image that was left out.
    """
    for remark in (*(f"left out {image}: {reason}" for image, reason in skipped), *remarks):
        print(printable(f"sslzoo: {remark}"), file=sys.stderr)
    return {"skipped": [{"path": image, "reason": reason} for image, reason in skipped], "remarks": remarks}


def without_picture(images: Iterable) -> str:
    """What to add of a page whose images, given by path, are not where they were; "" if all are."""
    there = [os.path.exists(image) for image in images if isinstance(image, str)]
    gone = there.count(False)
    return f" ({gone:,} of {len(there):,} images are not where they were, and have no picture)" if gone else ""


def changes(changed: dict[str, bool], done: str) -> str:
    """A line for each folder."""
    return "".join(f"{folder}: {done if new else 'unchanged'}\n" for folder, new in changed.items())

"""What can go wrong, one type per kind of fault.

Every message says what was expected and ends with `Received: name=value`, and is raised before any work is lost.
All types derive from `SSLZooError`, and from the built-in a reader would have expected.
"""

import difflib
import re
from collections.abc import Iterable

__all__ = [
    "ArtifactError",
    "BackendError",
    "HubError",
    "IntegrityError",
    "InvalidInputError",
    "ManifestError",
    "MissingDataError",
    "MissingPartError",
    "SSLZooError",
    "TrainingError",
    "UnknownNameError",
]

# What moves a terminal's cursor, changes its colors or the direction of text, or cannot be printed at all (the halves
# of characters that file names of unknown encoding come as). Tabs and line ends stay.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)


def printable(text: object) -> str:
    """A text with control characters written out (ESC as \\x1b), as files, servers and manifests may hold them."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), str(text))


class SSLZooError(Exception):
    """Base of every error that this package raises on purpose. Its message is safe to print."""

    _keras_call_info_injected = True  # or Keras writes a page around what is raised inside a layer's call

    def __str__(self):
        return printable(super().__str__())

    __init__ = Exception.__init__  # tf.data's tracing re-raises an error as its own type only if it finds this here


class UnknownNameError(SSLZooError, ValueError):
    """A name (dataset, policy, network, method, variant, protocol ...) is not one of the known ones."""


class InvalidInputError(SSLZooError, ValueError):
    """A value or an array does not fit: wrong rank, dtype, range, or a combination that makes no sense."""


class BackendError(SSLZooError, ImportError):
    """A package that is asked for is not installed: a backend of Keras, KerasHub, or pyarrow."""


class MissingDataError(SSLZooError, FileNotFoundError):
    """Data was looked for and is not there; the message says where, and how to get it."""


class ArtifactError(SSLZooError, ValueError):
    """A model folder or a checkpoint is incomplete, damaged, or belongs to another run."""


class MissingPartError(ArtifactError):
    """A model folder is whole, but lacks the part that was asked for."""


class IntegrityError(ArtifactError):
    """A file is not the one that was published: its hash differs from the one in the manifest or on the Hub."""


class ManifestError(SSLZooError, ValueError):
    """The manifest of published models is damaged, or names something that is not allowed."""


class HubError(SSLZooError, OSError):
    """The Hugging Face Hub could not be reached, refused, or lacks what was asked; the message says what to do.

    Attributes:
        answered: bool, whether the Hub was reached at all.
    """

    answered = True


class TrainingError(SSLZooError, ArithmeticError):
    """Training cannot go on: a loss term stopped being a finite number."""


MANY = 25  # names beyond which a message gives the nearest ones alone


def choose(kind: str, name: str, known: Iterable[str], besides: str = "") -> str:
    """Return `name` if it is one of `known`, else raise with the nearest names.

    Args:
        kind: str. What is being chosen, as the message calls it ("dataset").
        name: str. The name asked for.
        known: iterable of str.
        besides: str, what else could have been named, and is not there.

    Raises:
        UnknownNameError: `name` is not in `known`.
    """
    known = sorted(known)
    if isinstance(name, str) and name in known:
        return name
    near = nearest(name, known)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    expected = f"{len(known)} names" if (near or besides) and len(known) > MANY else ", ".join(known)
    expected += besides and f", or {besides}"
    raise UnknownNameError(f"Unknown {kind}.{hint} Expected one of {expected}. Received: {kind}={name!r}")


def nearest(name, known, most=3):
    """Names that `name` may stand for: but for case and punctuation, else those that begin with it, else alike."""
    names = {}
    for each in sorted(known):
        names.setdefault(plain(each), []).append(each)
    wanted = plain(name)
    if wanted in names:
        return names[wanted][:most]
    begin = [each for key in names if wanted and key.startswith(wanted) for each in names[key]]
    alike = [each for key in difflib.get_close_matches(wanted, names, n=most, cutoff=0.5) for each in names[key]]
    return (begin or alike)[:most]


def plain(name):
    """The letters and digits of a name in lower case: SimVAE_MNIST and simvae-mnist are one."""
    return "".join(filter(str.isalnum, str(name).lower()))

"""`sslzoo.load`: a trained model by name or path."""

import os
from pathlib import Path

import keras

from sslzoo import artefact
from sslzoo.errors import ArtefactError, InvalidInputError, choose


def load(
    name_or_path: "str | os.PathLike", part: str = "encoder", revision: str | None = None, verify: bool = True
) -> keras.Model:
    """Loads a trained model: a plain Keras model that takes raw images.

        encoder = sslzoo.load("simvae-mnist")
        features = encoder.predict(images)  # uint8 (B, 28, 28, 1) -> float32 (B, 10)

    A model folder or `.keras` file of that path comes first; then a name is looked for in the folder that the
    environment variable SSLZOO_WEIGHTS names, then in `weights/` of a checkout of this repository.

    Args:
        name_or_path: model folder, `.keras` file, or name such as "simvae-mnist".
        part: "encoder": raw images (B, H, W, C), values 0..255, uint8 or float -> (B, L);
            "posterior": the same -> [mean, log_var]; "decoder": (B, L) -> images in [0, 1];
            "model": the whole training method.
        revision: of a Hub repository; None for what is on this machine.
        verify: check files before use, results.json included.

    Returns:
        `keras.Model`, uncompiled and trainable, on the active backend. All but "model" consist of core Keras layers.

    Raises:
        UnknownNameError: no model or part of that name; the nearest names are given.
        ArtefactError: the model lacks that part, or its files are missing or damaged.
        InvalidInputError: a revision of something that has none.
    """
    choose("part", part, artefact.PARTS)
    path = find(name_or_path)
    if revision is not None:
        raise InvalidInputError(
            f"Only Hub repositories have revisions. Received: revision={revision!r} of {str(path)!r}"
        )
    return artefact.read(path, part, verify)


def find(name_or_path: "str | os.PathLike") -> Path:
    """Path of a model folder or `.keras` file.

    Args:
        name_or_path: as in `load`.

    Raises:
        UnknownNameError: no model of that name.
        ArtefactError: a path that does not exist.
    """
    if not isinstance(name_or_path, (str, os.PathLike)) or not os.fspath(name_or_path):
        raise InvalidInputError(f"Expected a name or a path. Received: name_or_path={name_or_path!r}")
    path, known = Path(name_or_path).expanduser(), local_models()
    exists = os.path.exists(path)  # which, unlike Path.exists, says no to a name that no file can have
    if str(name_or_path) in known and not (exists and (path.is_file() or artefact.parts(path))):
        return known[str(name_or_path)]
    if exists:
        return path
    if isinstance(name_or_path, os.PathLike) or path.suffix == ".keras" or len(path.parts) > 1:
        raise ArtefactError(f"No such folder or file. Received: name_or_path={os.fspath(name_or_path)!r}")
    if not known:
        searched = " or ".join(str(folder) for folder in _weight_folders())
        raise ArtefactError(
            f"No models found in {searched}. Give the path of a model folder, or set SSLZOO_WEIGHTS to the folder "
            f"that holds them. Received: name_or_path={name_or_path!r}"
        )
    choose("model", name_or_path, known)


def local_models() -> dict[str, Path]:
    """Models on this machine that `load` knows by name: name -> folder."""
    found = {}
    for folder in _weight_folders():
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if (path / artefact.CONFIG).is_file():
                found.setdefault(path.name, path)
    return found


def _weight_folders():
    """Where models lie by name, first come first served."""
    named = os.environ.get("SSLZOO_WEIGHTS")
    return [*([Path(named).expanduser()] if named else []), Path(__file__).resolve().parent.parent / "weights"]

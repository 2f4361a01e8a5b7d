"""All settings are in pyproject.toml; this puts what lies beside the package into what is installed: the manifest, the
recipes, and the trained encoders, as many as fit."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ENCODER = ("config.json", "metadata.json", "model.weights.h5", "results.json")
FIRST = ("simvae-", "simclr-", "moco-", "vicreg-")  # methods whose encoders come first; then all others, by name
SHOWN = ("simvae-digits", "simvae-mnist")  # whose decoders README shows
MOST = 98_000_000  # bytes of models: a package index takes files of 100 MB


def files(folder):
    """Files of a model that a wheel carries: paths relative to its folder."""
    decoder = [f"decoder/{file}" for file in ENCODER[:3]] if folder.name in SHOWN else []
    return [*ENCODER, *decoder]


def models(weights=Path("weights"), most=MOST):
    """Folders of the models that a wheel carries: in that order, up to `most` bytes."""

    def rank(folder):
        places = [place for place, method in enumerate(FIRST) if folder.name.startswith(method)]
        return places[0] if places else len(FIRST), folder.name

    for folder in sorted((path.parent for path in weights.glob("*/results.json")), key=rank):
        most -= sum((folder / file).stat().st_size for file in files(folder))
        if most < 0:
            return
        yield folder


class BuildWithNeighbors(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        carried = [Path("weights_manifest.json"), *Path("recipes").glob("*.py")]
        carried += [folder / file for folder in models() for file in files(folder)]
        for file in carried:
            target = Path(self.build_lib) / "sslzoo" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


if __name__ == "__main__":
    setup(cmdclass={"build_py": BuildWithNeighbors})

"""All settings are in pyproject.toml; this puts what lies beside the package into what is installed: the manifest, the
recipes, and the trained encoders, as many as fit."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ENCODER = ("config.json", "metadata.json", "model.weights.h5", "results.json")
MOST = 45_000_000  # bytes of encoders, the smallest first; what is left out comes from the Hub or a checkout


def encoders():
    """Folders of the encoders that a wheel carries."""
    sizes = {
        path.parent: sum((path.parent / file).stat().st_size for file in ENCODER)
        for path in Path("weights").glob("*/results.json")
    }
    room = MOST
    for folder, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        room -= size
        if room >= 0:
            yield folder


class BuildWithNeighbours(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return
        carried = [Path("weights_manifest.json"), *Path("recipes").glob("*.py")]
        carried += [folder / file for folder in encoders() for file in ENCODER]
        for file in carried:
            target = Path(self.build_lib) / "sslzoo" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


setup(cmdclass={"build_py": BuildWithNeighbours})

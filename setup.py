"""All settings are in pyproject.toml; this puts the manifest, which lies beside the package, into what is installed."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithManifest(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "sslzoo"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile("weights_manifest.json", target / "weights_manifest.json")


setup(cmdclass={"build_py": BuildWithManifest})

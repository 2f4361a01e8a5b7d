"""`sslzoo train, publish, seal, manifest`: models of one's own."""

import argparse
import contextlib
import sys

from sslzoo import publishing
from sslzoo.cli import shared
from sslzoo.cli.command import Answer, argument, changes, command
from sslzoo.errors import InvalidInputError, choose
from sslzoo.files import module_at
from sslzoo.zoo import index


def _recipes():
    """Recipes of methods by name: those inside an installed package, else those of the checkout."""
    files = sorted(index.beside("recipes").glob("[a-z]*.py"))
    return {file.stem.replace("_", "-"): file for file in files if file.stem != "zoo"}


@command(
    argument("method", metavar="METHOD", help=f"one of {', '.join(_recipes())}"),
    argument("flags", nargs=argparse.REMAINDER, type=str, metavar="...", help="flags of the recipe"),
    prints=True,
)
def train(method, flags):
    """Train an encoder by a method's recipe.

    What follows METHOD goes to its recipe: `sslzoo train METHOD --help` lists the
    flags. Progress goes to standard error, the path of the model folder to standard
    output.

    examples:
      sslzoo train simvae
      KERAS_BACKEND=jax sslzoo train simclr --dataset mnist --max-minutes 30
      sslzoo train simvae --dataset mnist --resume
    """
    recipes = _recipes()
    recipe = recipes[choose("method", method.replace("_", "-"), recipes)]
    asks = {"-h", "--help", "--show"} & set(flags)  # whose answers the recipe prints
    with contextlib.ExitStack() as stack:
        stack.callback(sys.argv.__setitem__, 0, sys.argv[0])
        sys.argv[0] = f"sslzoo train {method}"  # what the recipe's parser calls itself
        if not asks:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
            from sslzoo.training.script import patience  # imports Keras

            stack.enter_context(patience())
        folder = str(module_at(recipe).main(flags))
    return Answer({"folder": folder}, f"{folder}\n")


@command(
    argument("folder", type="path", metavar="FOLDER", help="a model folder"),
    argument("repository", metavar="REPO", help="organization/name on the Hub; created if it does not exist"),
    argument("--private", action="store_true", default=None, help="create a private repository"),
    argument("--public", action="store_false", dest="private", help="create a public repository"),
    argument("--create-pr", action="store_true", help="open a pull request instead of a commit"),
    argument("--overwrite-card", action="store_true", help="overwrite the card even if a person edited it"),
    argument("--manifest", type="path", metavar="FILE", help="manifest to pin the commit in (the checkout's)"),
    argument("--no-manifest", action="store_const", const=False, dest="manifest", help="do not pin the commit"),
    argument("--dry-run", action="store_true", help="check everything, print what would be sent, and send nothing"),
)
def publish(folder, repository, **options):
    """Put a model folder on the Hugging Face Hub.

    Checks everything first, then sends the files that differ in one commit, and pins
    it in weights_manifest.json. The card is made from results.json. The token is
    HF_TOKEN, or that of hf auth login.

    examples:
      sslzoo publish runs/my-simvae my-organization/my-simvae --dry-run
      sslzoo publish runs/my-simvae my-organization/my-simvae
      sslzoo publish weights/simvae-mnist sslzoo/simvae-mnist --create-pr
    """
    done = publishing.publish(folder, repository, **options)
    changed = len(done["changed"]) + len(done["removed"])
    if options["dry_run"]:
        made = ", a repository that would be made" if done["created"] else ""
        lines = [f"{done['name']}: nothing was sent to {done['url']}{made}"]
        lines += [f"would send {file}" for file in done["changed"]]
        lines += [f"would remove {file}" for file in done["removed"]]
        lines += [] if changed else ["These files are there already"]
        return Answer(done, "\n".join([*lines, *done["notes"], ""]))
    lines = [f"{done['name']}: {done['url']} at {done['revision']}"]
    lines.append(f"{changed} files changed" if changed else "Nothing changed: these files are there already")
    if done["pull_request"]:
        lines.append(f"Pull request: {done['pull_request']}")
    if done["manifest"]:
        lines.append(f"Pinned in {done['manifest']}")
    return Answer(done, "\n".join([*lines, *done["notes"], ""]))


@command(shared.FOLDERS)
def seal(folders):
    """Write the hashes of model folders' files into their results.json.

    Afterwards loading a folder refuses a file that changed. For folders written
    before there were such hashes, or whose files were changed on purpose; the card
    is made again. Models of the manifest are entered again afterwards: sslzoo
    manifest FOLDER.

    examples:
      sslzoo seal weights/*
      sslzoo seal runs/mine
    """
    changed = {str(folder): publishing.seal(folder) for folder in shared.matching(folders)}
    return Answer({"changed": changed}, changes(changed, "sealed"))


@command(
    shared.FOLDERS,
    argument("--organization", default="sslzoo", metavar="O", help="on the Hub, for models that are new (sslzoo)"),
    argument("--manifest", type="path", metavar="FILE", help="the manifest to change (the checkout's)"),
)
def manifest(folders, organization, manifest):
    """Enter model folders in the manifest of published models.

    Enters the numbers and the hashes of each folder's files under its name, after
    it was trained again. A pinned commit stays if it holds these very files.

    examples:
      sslzoo manifest weights/*
      sslzoo manifest runs/my-simvae --organization me
    """
    from sslzoo.publishing.manifest import refresh

    file = manifest or index.path()
    if index.is_installed(file):
        raise InvalidInputError(
            "An installed package's manifest is not changed: name another by --manifest or SSLZOO_MANIFEST. "
            f"Received: '{file}'"
        )
    changed = {str(folder): refresh(folder, organization, file) for folder in shared.matching(folders)}
    return Answer({"manifest": str(file), "changed": changed}, changes(changed, "entered"))

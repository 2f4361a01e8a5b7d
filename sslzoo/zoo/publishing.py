"""From a model folder to the Hugging Face Hub, in one commit, pinned in the manifest."""

import json
import os
from hashlib import sha256
from pathlib import Path

from sslzoo.errors import ArtefactError
from sslzoo.zoo import card as cards
from sslzoo.zoo import layout
from sslzoo.zoo import manifest as manifests
from sslzoo.zoo.results import read_results


def publish(
    folder: "str | os.PathLike",
    repo_id: str,
    private: bool | None = None,
    create_pr: bool = False,
    token: str | None = None,
    manifest: "str | os.PathLike | bool | None" = None,
    overwrite_card: bool = False,
) -> dict:
    """Puts a model folder on the Hugging Face Hub, in one commit, and pins that commit in the manifest.

    The folder is checked first: every part is read as `load` reads it. Only files that differ from those on the Hub are
    sent, and without any there is no commit. The card is made from results.json. One that a person wrote or edited on
    the Hub is kept, and the result says so, unless `overwrite_card`. Files of parts that the folder does not have are
    removed from the repository; files that are none of a model's are left alone.

    Args:
        folder: a model folder (`artefact.write`).
        repo_id: "organisation/name"; the repository is made if need be.
        private: whether only you may see it; None takes the organisation's default, or what the repository is.
        create_pr: open a pull request. Nothing is pinned then: publish again once it is merged.
        token: of the Hub, with write access; by default the one that this machine is logged in with.
        manifest: the file to pin the commit in. By default the checkout's, or what SSLZOO_MANIFEST names; an installed
            package's is not changed. False: none.
        overwrite_card: replace the card also if a person edited it.

    Returns:
        dict: name, repository, url, revision (commit that holds the files), created (bool, the repository was made),
        changed and removed (lists of files), pull_request (its address or None), manifest (path of the file in which
        the commit is pinned, or None), notes (list of str, what a person should know).

    Raises:
        ArtefactError: the folder holds no model, a damaged one, or more than a model.
        HubError: the Hub could not be reached or refused; the message says what to do.
        ManifestError: the manifest is damaged.
        InvalidInputError: `repo_id` is no name of a repository, or results.json lacks what the manifest takes.
    """
    from sslzoo.zoo import hub as hubs

    hubs.check_repository(repo_id)
    folder = Path(folder)
    results = _check_folder(folder)
    model = {file: (folder / file).read_bytes() for file in layout.files(folder) if file != layout.CARD}
    entry = manifests.entry(folder, repo_id)
    # What is pinned is what is sent, whatever becomes of the folder meanwhile.
    sent = {file: {"sha256": sha256(model[file]).hexdigest(), "bytes": len(model[file])} for file in entry["files"]}
    if entry["files"] != sent or results != json.loads(model[layout.RESULTS]):
        raise ArtefactError(
            f"The folder changed while it was read, as by a run that goes on there. Publish it again. "
            f"Received: '{folder}'"
        )
    pinning = None if create_pr else _manifest_to_change(manifest)
    if pinning is not None and pinning.exists():
        manifests.read(pinning)  # before anything is sent

    card, kept = cards.sign(cards.render(results, repo_id)), []

    def compose(remote):
        files = model | {layout.CARD: card.encode("utf-8")}
        kept.clear()
        if not overwrite_card and layout.CARD in remote.files and not remote.has(layout.CARD, files[layout.CARD]):
            there = hubs.download_text(repo_id, layout.CARD, remote.commit, token)
            if not cards.is_as_written(there):
                kept.append(files.pop(layout.CARD))
        unwanted = [file for file in remote.files if file.split("/")[0] in layout.PARTS[1:] and file not in model]
        return files, unwanted

    created = hubs.open_repository(repo_id, private, token)
    message = f"{results['name']}, as sslzoo writes it"
    revision, changed, removed, pull_request = hubs.commit(repo_id, compose, message, create_pr, token)
    notes = []
    if kept:
        notes.append("The card on the Hub was written or edited by a person, and kept; overwrite_card replaces it.")
    if pull_request:
        notes.append("The commit is pinned in the manifest when you publish again after the merge.")
    if pinning is not None:
        _pin(pinning, results["name"], entry | {"revision": revision})
    return {
        "name": results["name"],
        "repository": repo_id,
        "url": hubs.url(repo_id),
        "revision": revision,
        "created": created,
        "changed": changed,
        "removed": removed,
        "pull_request": pull_request,
        "manifest": None if pinning is None else str(pinning),
        "notes": notes,
    }


def _check_folder(folder):
    """Results of a model folder that holds a whole model, and nothing else."""
    results = read_results(folder)
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder).as_posix()
        if file.startswith(".") or "/." in file:  # hidden files stay here
            continue
        if path.is_symlink() or (path.is_file() and not layout.belongs(file)):
            raise ArtefactError(
                "Only files of a model are published, and links are none: remove what does not belong. "
                f"Received: {file!r} in '{folder}'"
            )
    missing = [picture["file"] for picture in results.get("pictures", ()) if not (folder / picture["file"]).is_file()]
    if missing:
        raise ArtefactError(f"results.json names pictures that are not there. Received: {missing} of '{folder}'")
    from sslzoo.zoo import artefact

    parts = ["encoder", *layout.parts(folder)]  # without an encoder it is no model
    parameters = {part: artefact.read(folder, part).count_params() for part in dict.fromkeys(parts)}
    if parameters != results.get("parts", parameters):
        raise ArtefactError(
            f"results.json must describe the parts that are there. Received: parts of {parameters} parameters in "
            f"'{folder}', where results.json has {results['parts']}"
        )
    return results


def _manifest_to_change(manifest):
    if manifest is False:
        return None
    if manifest is not None and manifest is not True:
        return Path(manifest)
    file = manifests.path()
    return None if manifests.is_installed(file) else file


def _pin(file, name, entry):
    """Enters the published model, unless the manifest pins an older commit with these very files already."""
    unpinned = {"revision": None}
    with manifests.changing(file):
        former = (manifests.read(file) if file.exists() else {}).get(name)
        if former is None or former["revision"] is None or former | unpinned != entry | unpinned:
            manifests.update(name, entry, file)

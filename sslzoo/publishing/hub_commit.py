"""From a model folder to the Hugging Face Hub, in one commit, pinned in the manifest."""

import os
from hashlib import sha256
from typing import Literal

from sslzoo.data.catalogue import KNOWN
from sslzoo.environment import check_backend
from sslzoo.errors import ArtifactError, HubError, InvalidInputError
from sslzoo.files import as_path
from sslzoo.publishing import card as cards
from sslzoo.publishing import manifest as manifests
from sslzoo.zoo import hub, index, layout
from sslzoo.zoo.results import read_results

_OF_IMAGES = ("views.png", "neighbors.png", "reconstructions.png")  # pictures of somebody's photographs


def publish(
    folder: "str | os.PathLike",
    repo_id: str,
    private: bool | None = None,
    create_pr: bool = False,
    token: str | None = None,
    manifest: "str | os.PathLike | Literal[False] | None" = None,
    overwrite_card: bool = False,
    dry_run: bool = False,
) -> dict:
    """Puts a model folder on the Hugging Face Hub, in one commit, and pins that commit in the manifest.

    The folder is checked first: every part is read as `load` reads it. Only files that differ from those on the Hub are
    sent, and without any there is no commit. The card is made from results.json. One that a person wrote or edited on
    the Hub is kept, and the result says so, unless `overwrite_card`. Files of parts, and pictures of the model that was
    there, are removed from the repository if the folder does not have them; its history keeps them. Files that are none
    of a model's are left alone.

    Args:
        folder: a model folder (`sslzoo.publishing.write`), or that of a run, which holds one.
        repo_id: "organization/name"; the repository is made if need be.
        private: whether only you may see it; None takes the organization's default, or what the repository is.
        create_pr: open a pull request. Nothing is pinned then: publish again once it is merged.
        token: of the Hub, with write access; by default the one that this machine is logged in with.
        manifest: the file to pin the commit in. By default the checkout's, or what SSLZOO_MANIFEST names; an installed
            package's is not changed. False: none.
        overwrite_card: replace the card also if a person edited it.
        dry_run: check everything and look at the Hub, if it can be reached, but make, send and pin nothing.

    Returns:
        dict: name, repository, url, revision (commit that holds the files; of a dry run the newest one there, or None),
        created (bool, the repository was made, or by a dry run would be; None of one without the Hub),
        changed and removed (lists of files), pull_request (its address or None), manifest (path of the file in which
        the commit is pinned, or None), notes (list of str, what a person should know).

    Raises:
        ArtifactError: the folder holds no model, a damaged one, or more than a model.
        HubError: the Hub could not be reached or refused; the message says what to do.
        ManifestError: the manifest is damaged.
        InvalidInputError: `repo_id` is no name of a repository, or results.json lacks what the manifest takes.
    """
    hub.check_repository(repo_id)
    if manifest and create_pr:
        raise InvalidInputError(
            "A pull request is pinned when it is merged and published again, so it takes no manifest. "
            f"Received: manifest='{manifest}', create_pr=True"
        )
    check_backend()
    folder = layout.model_in(folder) or as_path(folder)
    results = _check_folder(folder)
    model = {file: (folder / file).read_bytes() for file in layout.files(folder) if file != layout.CARD}
    entry = manifests.sealed_entry(folder, repo_id)
    # What is pinned is what is sent, whatever becomes of the folder meanwhile.
    sent = {file: sha256(content).hexdigest() for file, content in model.items()}
    sealed = {layout.RESULTS: entry["sha256"], **results["files"]}
    if others := [file for file, digest in sealed.items() if sent.get(file) != digest]:
        raise ArtifactError(
            f"The files must be those that {layout.RESULTS} names. Restore them, or publish again if the folder "
            f"changed while it was read. Received: {', '.join(others)} of '{folder}', missing or changed"
        )
    if manifest is None and not index.is_installed(index.path()):
        manifest = index.path()
    pinning = as_path(manifest) if manifest and not create_pr else None
    if pinning is not None and not dry_run:  # before anything is sent: what is not pinned, nobody finds again
        near = next(each for each in pinning.absolute().parents if each.exists())
        if not os.access(near, os.W_OK):
            raise InvalidInputError(
                "The manifest must lie where it can be written: name another (--manifest), or none (--no-manifest). "
                f"Received: '{pinning}'"
            )
    if pinning is not None and pinning.exists():
        former = index.read(pinning).get(results["name"], entry)  # before anything is sent
        if former["repository"] != repo_id and former["sha256"] != entry["sha256"]:
            raise InvalidInputError(
                f"The manifest has another model of that name, {former['repository']}, which would no longer load: "
                "train this one with another --name, or pass manifest=False (--no-manifest). "
                f"Received: {results['name']!r}"
            )

    card = cards.sign(cards.render(results, repo_id)).encode("utf-8")
    notes, created, before = [], None, hub.Remote(None, {})
    shown = [file for file in _OF_IMAGES if f"{layout.PICTURES}/{file}" in model]
    if shown and results.get("dataset") not in KNOWN:
        notes.append(
            f"Its pictures show images of the data: {', '.join(shown)}. To leave some out, delete them and seal the "
            f"folder again: sslzoo seal {folder}"
        )
    try:
        created = open_repository(repo_id, private, token, make=not dry_run)
        if not (created and dry_run):
            before = hub.remote(repo_id, token=token)
    except HubError as error:
        if error.answered or not dry_run:  # a refusal would be one of the real thing, too
            raise
        notes.append(f"All files of the model are listed, as if none were there: {error}")
    is_edited = not overwrite_card and _is_edited(before, card, repo_id, token)
    wanted = model if is_edited else model | {layout.CARD: card}
    changed = sorted(file for file, content in wanted.items() if not before.has(file, content))
    gone = [file for file in before.files if layout.belongs(file) and file not in wanted and "/" in file]
    if pictures := {file for file in gone if file.startswith(f"{layout.PICTURES}/")}:
        own = _pictures_of(before, repo_id, token)
        gone = [file for file in gone if file not in pictures or file in own]
    removed = sorted(gone)
    revision, pull_request = before.commit, None
    if (changed or removed) and not dry_run:
        message = f"{results['name']}, as sslzoo writes it"
        contents = {file: wanted[file] for file in changed}
        revision, pull_request = commit(repo_id, before.commit, contents, removed, message, create_pr, token)
    if is_edited:
        notes.append("The card on the Hub was written or edited by a person, and kept; overwrite_card replaces it.")
    if pull_request:
        notes.append("The commit is pinned in the manifest when you publish again after the merge.")
    if any(file.startswith(f"{layout.PICTURES}/") for file in removed):
        notes.append(f"The history of {hub.url(repo_id)} keeps the pictures that were removed.")
    if pinning is not None and not dry_run:
        _pin(pinning, results["name"], entry | {"revision": revision})
    return {
        "name": results["name"],
        "repository": repo_id,
        "url": hub.url(repo_id),
        "revision": revision,
        "created": created,
        "changed": changed,
        "removed": removed,
        "pull_request": pull_request,
        "manifest": None if pinning is None or dry_run else str(pinning),
        "notes": notes,
    }


def _pictures_of(remote, repository, token):
    """Pictures of the model that is in a repository; others were put there by a person."""
    if layout.RESULTS not in remote.files:
        return set()
    folder = hub.fetch(repository, remote.commit, [layout.RESULTS], token=token)
    try:
        return {each["file"] for each in read_results(folder).get("pictures", [])}
    except ArtifactError:  # which is replaced
        return set()


def _is_edited(remote, card, repository, token):
    """Whether the card of a repository was written or edited by a person."""
    if layout.CARD not in remote.files or remote.has(layout.CARD, card):
        return False
    folder = hub.fetch(repository, remote.commit, [layout.CARD], token=token)
    return not cards.is_as_written((folder / layout.CARD).read_text("utf-8", errors="replace"))


def open_repository(repository: str, private: bool | None, token: str | None, make: bool = True) -> bool:
    """Makes a repository unless it exists; returns whether it was made, or without `make` would be.

    Raises:
        HubError: the Hub cannot be reached or refuses, or it exists and is not as private as asked.
    """
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    api = hub.api(token)
    with hub.explained(f"open {index.SCHEME}{repository}", repository, token):
        try:
            is_private = bool(api.model_info(repository, timeout=hub.TIMEOUT).private)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            if make:
                api.create_repo(repository, private=private, exist_ok=True)
            return True
    if private is not None and is_private != private:
        raise HubError(
            f"{index.SCHEME}{repository} exists and is {'private' if is_private else 'public'}; change that in its "
            f"settings ({hub.url(repository)}/settings), or publish without private. Received: private={private}"
        )
    return False


def commit(
    repository: str,
    parent: str,
    contents: dict[str, bytes],
    removed: list[str],
    message: str,
    create_pr: bool = False,
    token: str | None = None,
) -> tuple[str, str | None]:
    """Changes a repository in one commit on top of `parent`, the newest one.

    Args:
        contents: path -> new content.
        removed: paths.

    Returns:
        (commit, address of the pull request or None).

    Raises:
        HubError: the Hub cannot be reached or refuses, or somebody else has changed the repository since `parent`.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations = [CommitOperationAdd(file, content) for file, content in contents.items()]
    operations += [CommitOperationDelete(file) for file in removed]
    with hub.explained(f"commit to {index.SCHEME}{repository}", repository, token):
        done = hub.api(token).create_commit(
            repository, operations, commit_message=message, create_pr=create_pr, parent_commit=parent
        )
    return done.oid, done.pr_url


def _check_folder(folder):
    """Results of a model folder that holds a whole model, and nothing else."""
    results = read_results(folder)
    for path in sorted(folder.rglob("*")):
        file = path.relative_to(folder).as_posix()
        if file.startswith(".") or "/." in file:  # hidden files stay here
            continue
        if path.is_symlink() or (path.is_file() and not layout.belongs(file)):
            raise ArtifactError(
                "Only files of a model are published, and links are none: remove what does not belong. "
                f"Received: {file!r} in '{folder}'"
            )
    from sslzoo.zoo import reading

    for part in dict.fromkeys(["encoder", *layout.parts(folder)]):  # without an encoder it is no model
        reading.read(folder, part)
    return results


def _pin(file, name, entry):
    """Enters the published model, unless the manifest pins an older commit with these very files already."""
    unpinned = {"revision": None}
    with manifests.changing(file) as entries:
        former = entries.get(name)
        if former is None or former["revision"] is None or former | unpinned != entry | unpinned:
            entries[name] = entry

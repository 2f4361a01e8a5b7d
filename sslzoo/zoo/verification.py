"""Whether the bytes that are here, in the cache and on the Hub are those of the manifest."""

from pathlib import Path

from sslzoo.errors import HubError, InvalidInputError, SSLZooError, choose
from sslzoo.files import is_path, sha256
from sslzoo.zoo import index, layout
from sslzoo.zoo.loading import local_models, weight_folders
from sslzoo.zoo.results import read_results


def verify(name: str | None = None, hub: bool = False) -> list[dict]:
    """Compares entries of the manifest with the files on this machine and, if asked, on the Hub.

    Args:
        name: of one model; by default all, and the local models that have no entry.
        hub: look at the Hub, too.

    Returns:
        list of dicts, one for each place that an entry was looked for in: name; where ("local", "cache" or "hub");
        place (folder or address); ok (True: every file is the one that was published; False: see problems; None:
        nothing to compare, for the reason in problems); problems (list of str); files (int, how many were compared).

    Raises:
        UnknownNameError: no model of that name.
        InvalidInputError: a path.
        ManifestError: the manifest is damaged.
    """
    entries, local = index.read(), local_models()
    names = sorted({*entries, *local})
    if is_path(name):
        raise InvalidInputError(
            "A model is verified by its name; the files of a folder are compared with its results.json whenever it is "
            f"loaded. Received: {name=}"
        )
    if name is not None:
        names = [choose("model", name, names, "no name, for all of them (sslzoo list shows the names)")]
    return [finding for each in names for finding in _findings(each, entries.get(each), local.get(each), hub)]


def _findings(name, entry, folder, hub):
    from sslzoo.zoo import hub as hubs

    if entry is None:
        yield _finding(name, "local", folder, "The manifest has no entry of that name")
        return
    if folder is None:
        searched = ", ".join(map(str, weight_folders()))
        yield _finding(name, "local", searched, "There is no copy on this machine")
    else:
        yield _compared(name, "local", folder, lambda: _local(entry, folder))
    repository, revision = entry["repository"], entry["revision"]
    if revision is not None and (cache := hubs.cached(repository, revision, [layout.RESULTS])):
        yield _compared(name, "cache", cache, lambda: _cached(entry, cache))
    if hub and revision is None:
        yield _finding(name, "hub", repository, "It is not published yet")
    elif hub:
        place = f"{hubs.url(repository)}/tree/{revision}"
        yield _compared(name, "hub", place, lambda: _published(entry))


def _finding(name, where, place, *problems, ok=None, files=0):
    return {"name": name, "where": where, "place": str(place), "ok": ok, "problems": [*problems], "files": files}


def _compared(name, where, place, look):
    """The finding of a place; `look()` gives how many files were compared there, and problems."""
    try:
        files, problems = look()
    except HubError as error:
        return _finding(name, where, place, str(error), ok=False if _is_gone(error.__cause__) else None)
    except (SSLZooError, OSError) as error:
        return _finding(name, where, place, str(error), ok=False)
    return _finding(name, where, place, *problems, ok=not problems, files=files)


def _is_gone(error):
    """Whether the Hub said that there is no such repository, commit or file; a gated one is there, for who was let in,
    and a file that is not in the cache may be."""
    from huggingface_hub import errors

    kinds = errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError
    unknown = errors.GatedRepoError, errors.LocalEntryNotFoundError
    return isinstance(error, kinds) and not isinstance(error, unknown)


def _expected(folder, entry):
    """Path -> sha256 that a folder's files must have, by the manifest and by results.json."""
    return {layout.RESULTS: entry["sha256"], **read_results(folder).get("files", {})}


def _differences(expected, present):
    problems = [f"{file} is missing" for file in expected if file not in present]
    problems += [f"{file} is not in {layout.RESULTS}" for file in present if file not in expected]
    for file, digest in expected.items():
        if file in present and present[file] != digest:
            problems.append(f"{file} has sha256 {present[file]}, not {digest}")
    return problems


def _local(entry, folder):
    expected, ignored = _expected(folder, entry), {"sha256"}
    if index.is_installed(folder):  # which carries encoders, and leaves most other parts to the Hub or a checkout
        carried = {"", *layout.parts(folder)}
        expected = {file: digest for file, digest in expected.items() if file.rpartition("/")[0] in carried}
        ignored |= {"parts", "bytes"}
    sealed = [file for file in layout.files(folder) if file in expected or Path(file).name not in layout.UNSEALED]
    problems = _differences(expected, {file: sha256(folder / file) for file in sealed})
    if problems:
        ignored |= {"parts", "bytes"}
    present = index.entry(folder, entry["repository"], entry["revision"])
    problems += [
        f"{field} in {layout.RESULTS} differs from the manifest's"
        for field in sorted({*entry, *present} - ignored)
        if present.get(field) != entry.get(field)
    ]
    return len(expected), problems


def _cached(entry, folder):
    expected = {file: digest for file, digest in _expected(folder, entry).items() if (folder / file).exists()}
    return len(expected), _differences(expected, {file: sha256(folder / file) for file in expected})


def _published(entry):
    from sslzoo.zoo import hub

    repository, revision = entry["repository"], entry["revision"]
    there = hub.remote(repository, revision).files
    folder = hub.fetch(repository, revision, [layout.RESULTS], {layout.RESULTS: entry["sha256"]})
    expected, present = _expected(folder, entry), {}
    for file in expected.keys() & there.keys():
        present[file] = there[file]
        if len(there[file]) != len(expected[file]):  # of small files the Hub names git's hash
            content = (hub.fetch(repository, revision, [file], expected) / file).read_bytes()
            present[file] = expected[file] if hub.git_hash(content) == there[file] else there[file]
    return len(expected), _differences(expected, present)

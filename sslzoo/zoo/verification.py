"""Whether the bytes that are here, in the cache and on the Hub are those of the manifest."""

from pathlib import Path

from sslzoo.errors import HubError, IntegrityError, SSLZooError, choose
from sslzoo.files import sha256
from sslzoo.zoo import index, layout
from sslzoo.zoo.loading import local_models, weight_folders
from sslzoo.zoo.results import read_results

_UNSEALED = {layout.RESULTS, layout.CARD, layout.METADATA}  # by results.json; the manifest seals results.json


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
        ManifestError: the manifest is damaged.
    """
    entries, local = index.read(), local_models()
    names = sorted({*entries, *local})
    if name is not None:
        names = [choose("model", name, names)]
    findings = []
    for each in names:
        entry = entries.get(each)
        if entry is None:
            problems = ["The manifest has no entry of that name"]
            findings.append(_finding(each, "local", local[each], None, problems, 0))
            continue
        findings.append(_verify_local(each, entry, local.get(each)))
        if entry["revision"] is not None:
            findings.append(_verify_cache(each, entry))
        if hub:
            findings.append(_verify_hub(each, entry))
    return [finding for finding in findings if finding is not None]


def _finding(name, where, place, ok, problems, files):
    return {"name": name, "where": where, "place": str(place), "ok": ok, "problems": problems, "files": files}


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


def _verify_local(name, entry, folder):
    if folder is None:
        searched = ", ".join(str(place) for place in weight_folders())
        return _finding(name, "local", searched, None, ["There is no copy on this machine"], 0)
    expected = {}
    try:
        expected = _expected(folder, entry)
        installed = index.is_installed(
            folder
        )  # which carries encoders, and leaves other parts to the Hub or a checkout
        if installed:
            expected = {file: digest for file, digest in expected.items() if "/" not in file}
        sealed = [file for file in layout.files(folder) if file in expected or Path(file).name not in _UNSEALED]
        problems = _differences(expected, {file: sha256(folder / file) for file in sealed})
        present = index.entry(folder, entry["repository"], entry["revision"])
        ignored = {"sha256", "parts", "bytes"} if installed or problems else {"sha256"}
        problems += [
            f"{field} in {layout.RESULTS} differs from the manifest's"
            for field in sorted({*entry, *present} - ignored)
            if present.get(field) != entry.get(field)
        ]
    except (SSLZooError, OSError) as error:
        problems = [str(error)]
    return _finding(name, "local", folder, not problems, problems, len(expected))


def _verify_cache(name, entry):
    """What the Hub's cache holds of an entry; None if that is nothing."""
    from sslzoo.zoo import hub as hubs

    def cached(file):
        return hubs.cached(entry["repository"], entry["revision"], [file])

    folder = cached(layout.RESULTS)
    if folder is None:
        return None
    try:
        expected = {file: digest for file, digest in _expected(folder, entry).items() if cached(file) is not None}
        problems = _differences(expected, {file: sha256(folder / file) for file in expected})
    except (SSLZooError, OSError) as error:
        expected, problems = {}, [str(error)]
    return _finding(name, "cache", folder, not problems, problems, len(expected))


def _verify_hub(name, entry):
    from sslzoo.zoo import hub as hubs

    repository, revision = entry["repository"], entry["revision"]
    if revision is None:
        return _finding(name, "hub", repository, None, ["It is not published yet"], 0)
    place, expected = f"{hubs.url(repository)}/tree/{revision}", {}
    try:
        there = hubs.remote(repository, revision).files
        folder = hubs.fetch(repository, revision, [layout.RESULTS], {layout.RESULTS: entry["sha256"]})
        expected = _expected(folder, entry)
        problems = [f"{file} is missing" for file in expected if file not in there]
        for file in expected.keys() & there.keys():
            digest = expected[file]
            if len(there[file]) != len(digest):  # of small files the Hub names git's hash
                digest = hubs.git_hash((hubs.fetch(repository, revision, [file], expected) / file).read_bytes())
            if there[file] != digest:
                problems.append(f"{file} has hash {there[file]}, not {digest}")
    except IntegrityError as error:
        problems = [str(error)]
    except HubError as error:
        return _finding(name, "hub", place, None, [str(error)], 0)
    return _finding(name, "hub", place, not problems, problems, len(expected))

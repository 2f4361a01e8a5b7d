"""Whether the bytes that are here, in the cache and on the Hub are those of the manifest."""

from sslzoo.errors import HubError, IntegrityError, SSLZooError, choose
from sslzoo.files import sha256
from sslzoo.zoo import layout
from sslzoo.zoo import manifest as manifests
from sslzoo.zoo.loading import _weight_folders, local_models


def verify(name: str | None = None, hub: bool = False) -> list[dict]:
    """Compares entries of the manifest with the files on this machine and, if asked, on the Hub.

    Args:
        name: of one model; by default all, and the local models that have no entry.
        hub: look at the Hub, too.

    Returns:
        list of dicts, one for each place that an entry was looked for in: name; where ("local", "cache" or "hub");
        place (folder or address); ok (True: every file is the one of the manifest; False: see problems; None: nothing
        to compare, for the reason in problems); problems (list of str); files (int, how many were compared).

    Raises:
        UnknownNameError: no model of that name.
        ManifestError: the manifest is damaged.
    """
    entries, local = manifests.read(), local_models()
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


def _verify_local(name, entry, folder):
    if folder is None:
        searched = ", ".join(str(place) for place in _weight_folders())
        return _finding(name, "local", searched, None, ["There is no copy on this machine"], 0)
    problems, expected = [], entry["files"]
    if manifests.is_installed(folder):  # which carries encoders, and leaves other parts to the Hub or a checkout
        expected = {file: facts for file, facts in expected.items() if "/" not in file}
    try:
        present = manifests.entry(folder, entry["repository"], entry["revision"])
        problems += _differences(expected, present["files"])
        for field in entry:
            if field != "files" and present[field] != entry[field]:
                problems.append(f"{field} in {layout.RESULTS} differs from the manifest's")
    except (SSLZooError, OSError) as error:
        problems.append(str(error))
    return _finding(name, "local", folder, not problems, problems, len(expected))


def _differences(expected, present):
    problems = [f"{file} is missing" for file in expected if file not in present]
    problems += [f"{file} is not in the manifest" for file in present if file not in expected]
    for file in expected:
        if file in present and present[file] != expected[file]:
            problems.append(f"{file} has sha256 {present[file]['sha256']}, not {expected[file]['sha256']}")
    return problems


def _verify_cache(name, entry):
    """What the Hub's cache holds of an entry; None if that is nothing."""
    from sslzoo.zoo import hub as hubs

    places = {file: hubs.cached(entry["repository"], entry["revision"], [file]) for file in entry["files"]}
    held = {file: folder for file, folder in places.items() if folder is not None}
    if not held:
        return None
    cached = {file: {"sha256": sha256(folder / file)} for file, folder in held.items()}
    expected = {file: {"sha256": entry["files"][file]["sha256"]} for file in held}
    problems = _differences(expected, cached)
    return _finding(name, "cache", next(iter(held.values())), not problems, problems, len(held))


def _verify_hub(name, entry):
    from sslzoo.zoo import hub as hubs

    repository, revision = entry["repository"], entry["revision"]
    if revision is None:
        return _finding(name, "hub", repository, None, ["It is not published yet"], 0)
    place = f"{hubs.url(repository)}/tree/{revision}"
    problems = []
    try:
        there = hubs.remote(repository, revision).files
        for file, facts in entry["files"].items():
            if file not in there:
                problems.append(f"{file} is missing")
            elif there[file]["sha256"] is None:  # of small files the Hub names git's hash
                held = hubs.fetch(repository, revision, [file], pinned=entry["files"]) / file
                if hubs.git_hash(held.read_bytes()) != there[file]["git"]:
                    problems.append(f"{file} has git hash {there[file]['git']}, not that of the manifest's file")
            elif there[file]["sha256"] != facts["sha256"]:
                problems.append(f"{file} has sha256 {there[file]['sha256']}, not {facts['sha256']}")
    except IntegrityError as error:
        problems.append(str(error))
    except HubError as error:
        return _finding(name, "hub", place, None, [str(error)], 0)
    return _finding(name, "hub", place, not problems, problems, len(entry["files"]))

"""The Hugging Face Hub: files downloaded into the cache of `huggingface_hub`, and checked.

huggingface_hub does the work: cache, locks, retries, sizes, progress bars, offline mode (HF_HUB_OFFLINE), endpoint
(HF_ENDPOINT) and token (HF_TOKEN or `hf auth login`) are its own. Added here: hashes are compared with those that were
published, names that a server gives are looked at before paths are made of them, and every fault ends in one error
that says what to do.
"""

import contextlib
import errno
import hashlib
import os
import re
import shutil
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from sslzoo.errors import ArtifactError, HubError, IntegrityError, InvalidInputError, SSLZooError
from sslzoo.files import sha256
from sslzoo.zoo import index
from sslzoo.zoo.layout import RESULTS, part_files
from sslzoo.zoo.results import parse_results

TIMEOUT = 30.0  # seconds for one answer about a repository

_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DISK_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
_SECRET = re.compile(r"hf_[A-Za-z0-9]{8,}|(?<=[Bb]earer )[^\s'\",]+|(?<=://)[^\s/@'\"]+(?=@)")


# ------------------------------------------------------------------ names


def parse(path: str) -> tuple[str, str | None]:
    """Repository and revision (None: not stated) of "hf://organization/name[@revision]".

    Raises:
        InvalidInputError: it is not of that form.
    """
    repository, at, revision = path.removeprefix(index.SCHEME).partition("@")
    if not path.startswith(index.SCHEME) or (at and not revision):
        raise InvalidInputError(f"Expected hf://organization/name[@revision]. Received: {path!r}")
    return check_repository(repository, path), check_revision(revision) if at else None


def check_repository(repository: object, received: object = None) -> str:
    """The name of a repository, "organization/name", if it is one."""
    if not isinstance(repository, str) or not index.is_repository(repository):
        raise InvalidInputError(
            f"A repository on the Hub is called organization/name.{index.hint(str(received or repository))} "
            f"Received: {received or repository!r}"
        )
    return repository


def check_revision(revision: object) -> str:
    """A branch, tag or commit, if it can be one; it becomes part of a path in the cache."""
    if not isinstance(revision, str) or not _REVISION.fullmatch(revision) or ".." in revision or len(revision) > 200:
        raise InvalidInputError(f"A revision is a commit, tag or branch. Received: revision={revision!r}")
    return revision


def url(repository: str) -> str:
    """Where a person looks at a repository."""
    return f"{_endpoint()}/{repository}"


def _endpoint():
    """Address of the Hub, without a password that may stand in it."""
    from huggingface_hub import constants

    return re.sub(r"(?<=://)[^/]*@", "", constants.ENDPOINT)


# ------------------------------------------------------------------ fetch


def cached(repository: str, revision: str, files: list[str]) -> Path | None:
    """Folder of the cache that holds all these files of a commit, unchecked; None if there is none. Asks nobody."""
    from huggingface_hub import try_to_load_from_cache

    paths = [try_to_load_from_cache(repository, file, revision=revision) for file in files]
    return _root(paths[0], files[0]) if paths and all(isinstance(path, str) for path in paths) else None


def fetch(
    repository: str,
    revision: str | None,
    files: list[str],
    hashes: dict[str, str] | None = None,
    optional: bool = False,
    verify: bool = True,
    token: str | None = None,
) -> Path | None:
    """Brings files of a repository into the cache, those that are not there yet.

    Args:
        repository: "organization/name".
        revision: commit, tag or branch; None for the newest commit. All files come from one commit.
        files: paths in the repository.
        hashes: path -> sha256 that a file must have; of others the Hub's own name is checked, where the cache has it.
        optional: whether files need not exist there.
        verify: check the files, those in the cache too. One that fails is downloaded again, once, and removed from the
            cache if that did not help.
        token: of the Hub; None for the one that this machine is logged in with.

    Returns:
        Folder of the cache that holds that commit; None if no file exists there.

    Raises:
        HubError: the Hub cannot be reached, refuses, or lacks a file.
        IntegrityError: a file is not the one that was published.
        InvalidInputError: a repository or revision that cannot be the name of one.
    """
    check_repository(repository)
    revision, folder = check_revision("main" if revision is None else revision), None
    for file in files:
        if not index.is_safe_path(file):
            raise InvalidInputError(f"Expected a file inside the repository. Received: {file!r}")
        source = _Source(repository, file, revision, token)
        path = source.fetch(optional=optional)
        if path is None:
            continue
        folder, revision = _root(path, file), _root(path, file).name
        source.revision = revision
        _check_place(path, file)
        if verify:
            _check_content(source, path, (hashes or {}).get(file))
    return folder


def _held(repository):
    """What the cache has of a repository, by the addresses that need no network; "" if it has nothing."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model") / "snapshots"
    commits = sorted(path.name for path in folder.glob("*") if cached(repository, path.name, part_files("encoder")))
    addresses = ", ".join(f"{index.SCHEME}{repository}@{commit}" for commit in commits)
    return f"; the cache holds {addresses}" if addresses else ""


def _root(path, file):
    """Folder of the commit that a cached file belongs to."""
    return Path(path).parents[file.count("/")]


@dataclass
class _Source:
    """One file of a repository at a revision."""

    repository: str
    file: str
    revision: str
    token: str | None

    def __str__(self):
        return f"{self.file!r} of {index.SCHEME}{self.repository}@{self.revision}"

    def fetch(self, again=False, optional=False):
        """Path in the cache; None for an optional file that the repository lacks."""
        import huggingface_hub
        from huggingface_hub import constants
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        if not again and re.fullmatch(index.COMMIT, self.revision):  # a commit does not change: ask nobody
            held = huggingface_hub.try_to_load_from_cache(self.repository, self.file, revision=self.revision)
            if isinstance(held, str):
                return held
            if held is not None and optional:  # known not to exist
                return None
        held = "" if re.fullmatch(index.COMMIT, self.revision) else _held(self.repository)
        with explained(f"fetch {self}", self.repository, self.token, held), _names_checked(self):
            try:
                return _persistently(
                    lambda: huggingface_hub.hf_hub_download(
                        self.repository,
                        self.file,
                        revision=self.revision,
                        token=self.token,
                        force_download=again,
                        library_name="sslzoo",
                    )
                )
            except EntryNotFoundError as error:
                unreached = isinstance(error, LocalEntryNotFoundError)
                if optional and (not unreached or constants.HF_HUB_OFFLINE):
                    return None
                raise


def _persistently(download):
    """What `download` returns, tried thrice where the client gives up: faults of the server, files cut short."""
    for attempt in (1, 2, 3):
        try:
            return download()
        except OSError as error:
            cut_short = type(error) is OSError and error.errno is None
            if attempt == 3 or not (cut_short or (_status(error) or 0) >= 500):
                raise
        time.sleep(attempt)


def _status(error):
    return getattr(getattr(error, "response", None), "status_code", None)


_watched = threading.local()


@contextlib.contextmanager
def _names_checked(source):
    """While open, hashes and commits that this thread gets are looked at: the cache makes paths out of them."""
    from huggingface_hub.utils import get_session

    session = get_session()
    hooks = getattr(session, "event_hooks", None) or session.hooks  # `hooks` before huggingface_hub 1.0
    if _check_names not in hooks["response"]:
        hooks["response"].append(_check_names)
        session.event_hooks = hooks
    _watched.source = source
    try:
        yield
    finally:
        _watched.source = None


def _check_names(response, **_):
    source, headers = getattr(_watched, "source", None), response.headers
    commit = headers.get("X-Repo-Commit")
    if source is None or commit is None:
        return
    names = [(commit, index.COMMIT)]
    if response.request.method == "HEAD" and response.status_code < 400:
        tag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
        names.append((tag.removeprefix("W/").strip('"'), _HASH))
    for name, pattern in names:
        if not re.fullmatch(pattern, name):
            raise HubError(
                "The Hub, or what answers in its place (HF_ENDPOINT), must name commits and files by hexadecimal "
                f"hashes, and nothing was downloaded. Received: {name[:200]!r} for {source}"
            )


def _check_place(path, file):
    """Raise if a cached file is not in the cache."""
    from huggingface_hub import constants

    repository = _root(path, file).parent.parent  # which a person may have moved to another disk, and linked
    place = Path(os.path.realpath(path))
    if not any(place.is_relative_to(os.path.realpath(home)) for home in (constants.HF_HUB_CACHE, repository)):
        raise IntegrityError(f"A file of the cache leads out of it; remove it. Received: '{path}' -> '{place}'")


def _check_content(source, path, expected):
    """Raise if a cached file is another than it should be, also after a second download."""
    difference = _difference(path, expected) or _unreadable(path, expected)
    if difference is None:
        return
    if not os.path.islink(path):  # a file system without links, where the client keeps a file that is there
        _discard(path)
    elif _difference(path, None) is None:  # a link to another file, which is whole
        _remove(path)
    try:
        path = source.fetch(again=True)  # replaces the file at one stroke: others may be reading it
    except HubError as error:
        _discard(path)
        raise IntegrityError(
            f"{source} in the cache was damaged ({difference}) and has been removed; fetching it again failed. {error}"
        ) from error
    if (difference := _difference(path, expected)) is not None:
        _discard(path)
        raise IntegrityError(
            f"{source} is not the file that was published, also after a second download, and has been removed. Try "
            "another network, or another version of sslzoo; if it stays, tell whoever publishes the model. "
            f"verify=False loads it at your own risk. Expected {difference}"
        )


def _difference(path, expected):
    """In words, how a cached file differs from what it should be; None if it does not."""
    try:
        if expected is None:
            if not os.path.isfile(path):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            # The cache names a file as the Hub does: sha256 of large files, git's hash of small ones.
            # That may be a link, too, into a store that all repositories share and that has names of its own.
            expected = os.path.basename(os.readlink(path)) if os.path.islink(path) else ""
            if not _HASH.fullmatch(expected):  # a file system without links
                if os.path.basename(path) != RESULTS:
                    warnings.warn(f"Neither results.json nor the cache has a hash of '{path}'.", stacklevel=5)
                return None
        digest = git_hash(Path(path).read_bytes()) if len(expected) == 40 else sha256(path)
        return None if digest == expected else f"hash {expected}. Received: {digest}"
    except OSError as error:
        return f"a readable file. Received: {error}"


def _unreadable(path, expected):
    """In words, why results.json cannot be read, where no hash can tell that it is damaged; None if it can."""
    if expected is None and os.path.basename(path) == RESULTS and not os.path.islink(path):
        try:
            parse_results(Path(path).read_bytes(), path)
        except ArtifactError as error:
            return f"a file that can be read. Received: {error}"
    return None


def _discard(path):
    """Removes a file from the cache, so that the next attempt downloads it; what other repositories share stays."""
    own = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else path
    for place in {own, path}:
        _remove(place)


def _remove(place):
    with contextlib.suppress(OSError):  # it is gone, or the cache cannot be written: the error says what is wrong
        if os.path.isdir(place) and not os.path.islink(place):
            shutil.rmtree(place)
        else:
            os.unlink(place)


def git_hash(content: bytes) -> str:
    """Name that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


# ------------------------------------------------------------------ look


@dataclass(frozen=True)
class Remote:
    """A commit of a repository: its files, path -> sha256 of large ones, git's hash of small ones."""

    commit: str | None
    files: dict[str, str]

    def has(self, file: str, content: bytes) -> bool:
        """Whether that file is there with that content."""
        return self.files.get(file) in (git_hash(content), hashlib.sha256(content).hexdigest())


def remote(repository: str, revision: str | None = None, token: str | None = None) -> Remote:
    """What a repository holds.

    Raises:
        HubError: the Hub cannot be reached, refuses, or has no such repository.
    """
    with explained(f"look at {index.SCHEME}{repository}", repository, token):
        info = api(token).model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
        files = {file.rfilename: file.lfs["sha256"] if file.lfs else file.blob_id for file in info.siblings or ()}
        return Remote(info.sha, files)


def api(token: str | None):
    """The client of the Hub."""
    import huggingface_hub

    return huggingface_hub.HfApi(token=token, library_name="sslzoo")


# ------------------------------------------------------------------ faults


@contextlib.contextmanager
def explained(doing: str, repository: str, token: str | None = None, held: str | None = None):
    """While open, whatever the client stumbles over becomes a HubError that says what to do.

    Args:
        held: what can be had without the Hub, said where it cannot be reached; None for what needs the Hub itself.
    """
    try:
        yield
    except SSLZooError:
        raise
    except Exception as error:
        fault = _origin(error)
        status = _status(fault)
        kind = f"status {status}" if status is not None else type(fault).__name__
        reason = " ".join(str(fault).split())[:400] or "no reason given"
        message = f"Could not {doing}. {_advice(fault, status, repository, held)}. Received: {kind}: {reason}"
        safe = _without_secrets(message, token)
        # A cause would be printed beside the message, with what was taken out of it.
        cause = error if _without_secrets(f"{error}{fault}", token) == f"{error}{fault}" else None
        unavailable = HubError(safe)
        unavailable.answered = status is not None
        raise unavailable from cause


def _origin(error):
    """The fault behind an error that says only that nothing was found in the cache, or that an upload failed."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    while error.__cause__ is not None and (
        isinstance(error, LocalEntryNotFoundError) or type(error) in (ValueError, RuntimeError)
    ):
        error = error.__cause__
    return error


def _advice(error, status, repository, held):
    """What to do about a fault: the first row that has its type or its status, subclasses before their bases."""
    from huggingface_hub import constants, errors

    online = "Go online once, or set SSLZOO_WEIGHTS"
    page, endpoint, log_in = url(repository), _endpoint(), "log in with `hf auth login`, or set HF_TOKEN"
    unreached = (
        f"{endpoint} cannot be reached, or the connection broke. Check network, proxy (HTTPS_PROXY), HF_ENDPOINT"
        + (held or "")
    )
    offline = "Offline mode is on (HF_HUB_OFFLINE), and "
    offline += "this needs the Hub. Unset it" if held is None else f"the cache lacks this. {online}{held}"
    damaged = f"The cache of this repository is damaged; remove it from {constants.HF_HUB_CACHE}"
    disk = f"The cache {constants.HF_HUB_CACHE} cannot be written. Make room or give permission, or set HF_HOME"
    token = "Take one that may (https://huggingface.co/settings/tokens), or publish under a name of your own"
    table = [
        (errors.OfflineModeIsEnabled, (), offline),
        (errors.GatedRepoError, (), f"Access is granted on request. Ask for it at {page}, then {log_in}"),
        (errors.RevisionNotFoundError, (), f"There is no such revision. {page}/commits/main lists those there are"),
        (errors.LocalEntryNotFoundError, (), unreached),
        (errors.EntryNotFoundError, (), f"There is no such file, so perhaps no such part. See {page}/tree/main"),
        (errors.RepositoryNotFoundError, (401, 404), f"There is no repository {page}, or it is private; {log_in}"),
        ((), (403,), f"The token does not allow this, to read or to write. {token}"),
        ((), (412,), "Somebody else changed the repository meanwhile. Look at it, then try again"),
        ((), (429, *range(500, 600)), f"The Hub ({endpoint}) is busy or has a fault of its own. Try again later"),
        *([(ValueError, (), damaged)] if constants.HF_HUB_OFFLINE else []),
        (
            (ValueError, errors.FileMetadataError),
            range(600),
            "What answered sent something unexpected. Check HF_ENDPOINT",
        ),
    ]
    if status is None and isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        return disk
    return next((advice for kind, codes, advice in table if isinstance(error, kind) or status in codes), unreached)


def _without_secrets(text, token):
    from huggingface_hub import get_token

    for secret in (token, get_token()):
        if isinstance(secret, str) and len(secret) >= 4:
            text = text.replace(secret, "***")
    return _SECRET.sub("***", text)

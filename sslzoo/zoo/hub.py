"""The Hugging Face Hub: files fetched, checked and cached; folders compared and committed.

The only file that talks to `huggingface_hub`, which does the work: cache, locks, progress bars, resuming, offline mode
(HF_HUB_OFFLINE), endpoint (HF_ENDPOINT) and token (HF_TOKEN or `hf auth login`) are its own. Added here: what was
received is compared with what was published, faults that pass are tried again, and those that stay end in one error
that says what to do.

A server is not trusted with paths, sizes or time. huggingface_hub makes the names of its cache out of what a server
answers, so those answers are looked at first: before any byte is written, a file's hash and commit must be such, and
its size the one that was published. Whoever falls silent is left after `SILENCE` seconds.
"""

import contextlib
import dataclasses
import errno
import hashlib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from sslzoo.errors import HubError, IntegrityError, InvalidInputError, SSLZooError
from sslzoo.files import sha256
from sslzoo.zoo import manifest
from sslzoo.zoo.manifest import SCHEME

# Seconds before each further attempt, unless the Hub asks for another pause. huggingface_hub has tried several times
# itself by then, so nothing is tried again that has taken PATIENCE already, and no pause beyond LONGEST_PAUSE is made.
PAUSES = (1.0, 2.0, 4.0)
PATIENCE = 20.0
LONGEST_PAUSE = 30.0
SILENCE = 30.0  # seconds in which a server must have sent something, all of huggingface_hub's own attempts together
TIMEOUT = 30.0  # seconds for one answer about a repository; for files HF_HUB_ETAG_TIMEOUT and HF_HUB_DOWNLOAD_TIMEOUT

_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_PASSING = {408, 412, 425, 429, 500, 502, 503, 504}
_DISK_FAULTS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
_NETWORK_LIBRARIES = {"httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "ssl", "socket"}
_TOKEN = re.compile(r"hf_[A-Za-z0-9]{8,}|(?<=[Bb]earer )[^\s'\",]+|(?<=://)[^\s/@'\"]+(?=@)")
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def sleep(seconds: float) -> None:
    """Waits; apart, so that tests need not."""
    time.sleep(seconds)


# ------------------------------------------------------------------ names


def parse(path: str) -> tuple[str, str | None]:
    """Repository and revision (None: not stated) of "hf://organisation/name[@revision]".

    Raises:
        InvalidInputError: it is not of that form.
    """
    repository, at, revision = path.removeprefix(SCHEME).partition("@")
    if not path.startswith(SCHEME) or (at and not revision):
        raise InvalidInputError(f"Expected hf://organisation/name[@revision]. Received: {path!r}")
    return check_repository(repository, path), check_revision(revision) if at else None


def check_repository(repository: object, shown: object = None) -> str:
    """The name of a repository, "organisation/name", if it is one."""
    if not isinstance(repository, str) or not manifest.is_repository(repository):
        raise InvalidInputError(
            f"A repository on the Hub is called organisation/name. Received: {shown or repository!r}"
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

    found = [try_to_load_from_cache(repository, file, revision=revision) for file in files]
    return _root(found[0], files[0]) if found and all(isinstance(path, str) for path in found) else None


def fetch(
    repository: str,
    revision: str | None,
    files: list[str],
    optional: "list[str] | tuple[str, ...]" = (),
    pinned: dict[str, dict] | None = None,
    verify: bool = True,
    token: str | None = None,
) -> Path:
    """Brings files of a repository into the cache, those that are not there yet.

    Several processes may fetch the same files at once.

    Args:
        repository: "organisation/name".
        revision: commit, tag or branch; None for the newest commit. All files come from one commit.
        files: paths in the repository.
        optional: further ones that need not exist there.
        pinned: path -> {"sha256", "bytes"} that the files must have; None for what the Hub says of them. Never are more
            bytes downloaded than that.
        verify: check the files, those in the cache too. One that fails is downloaded again, once, and removed from the
            cache if that did not help.
        token: of the Hub; None for the one that this machine is logged in with.

    Returns:
        Folder of the cache that holds that commit.

    Raises:
        HubError: the Hub cannot be reached, refuses, or lacks a file.
        IntegrityError: a file is not the one that was published.
        InvalidInputError: names that are none.
    """
    check_repository(repository)
    revision = check_revision("main" if revision is None else revision)
    for file in (*files, *optional):
        if not manifest.is_safe_path(file):
            raise InvalidInputError(f"Expected a file inside the repository. Received: {file!r}")
    folder = None
    for file in (*files, *optional):
        expected = (pinned or {}).get(file) if verify else None
        source = _Source(repository, file, revision, token, expected and expected["bytes"])
        path = source.fetch(optional=file in optional)
        if path is None:
            continue
        folder, revision = _root(path, file), _root(path, file).name
        if not re.fullmatch(manifest.COMMIT, revision):
            raise HubError(f"The Hub must name the commit of a file. Received: {revision!r} for {source}")
        source.revision = revision
        _check_place(path, file)
        if verify:
            _check_content(source, path, expected)
    return folder


def _root(path, file):
    """Folder of the commit that a cached file belongs to."""
    return Path(path).parents[file.count("/")]


@dataclasses.dataclass
class _Source:
    """One file of a repository at a revision."""

    repository: str
    file: str
    revision: str
    token: str | None
    size: int | None = None  # bytes, as published

    def __str__(self):
        return f"{self.file!r} of {SCHEME}{self.repository}@{self.revision}"

    def fetch(self, again=False, optional=False):
        """Path in the cache; None for an optional file that the repository lacks."""
        import huggingface_hub
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        if not again and re.fullmatch(manifest.COMMIT, self.revision):  # a commit does not change: ask nobody
            found = huggingface_hub.try_to_load_from_cache(self.repository, self.file, revision=self.revision)
            if isinstance(found, str):
                return found
            if found is not None and optional:  # known not to exist
                return None

        def download():
            try:
                with _Watch(self):
                    return huggingface_hub.hf_hub_download(
                        self.repository,
                        self.file,
                        revision=self.revision,
                        token=self.token,
                        force_download=again,
                        library_name="sslzoo",
                    )
            except LocalEntryNotFoundError as error:
                if optional and _is_offline(_origin(error)):
                    return None
                raise
            except EntryNotFoundError:
                if optional:
                    return None
                raise

        return _persist(download, f"fetch {self}", self.repository, self.token)


class _Watch:
    """While open, what this thread receives is looked at before huggingface_hub sees it.

    Args:
        source: `_Source` that is fetched.
    """

    open = threading.local()

    def __init__(self, source):
        self.source = source
        self.most = source.size  # bytes that an answer may have
        self.heard = time.monotonic()

    def __enter__(self):
        from huggingface_hub.utils import get_session

        hooks = getattr(get_session(), "event_hooks", None)
        if hooks is None:  # versions before 1.0
            hooks = get_session().hooks
        for event, hook in (("request", _before_request), ("response", _after_response)):
            if event in hooks and hook not in hooks[event]:
                hooks[event].append(hook)
        _Watch.open.by = self

    def __exit__(self, *error):
        _Watch.open.by = None

    def left(self):
        """Seconds of silence that are left."""
        left = self.heard + SILENCE - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing came for {SILENCE:g} seconds")
        return left

    def check(self, response):
        """Raise if an answer would lead outside the cache, or is not the file."""
        headers, method = response.headers, response.request.method
        if response.status_code < 500:
            self.heard = time.monotonic()
        commit = headers.get("X-Repo-Commit")
        if commit is not None and not re.fullmatch(manifest.COMMIT, commit):
            raise HubError(f"The Hub must name the commit of a file. Received: {commit[:200]!r} for {self.source}")
        if response.status_code >= 400:
            return
        if method == "HEAD" and commit is not None:
            tag = headers.get("X-Linked-Etag") or headers.get("ETag") or ""
            if not _HASH.fullmatch(tag.removeprefix("W/").strip('"')):
                raise HubError(
                    "The Hub, or what answers in its place (HF_ENDPOINT), must call a file by its hash, and nothing "
                    f"was downloaded. Received: {tag[:200]!r} for {self.source}"
                )
            stated = headers.get("X-Linked-Size") or (None if "Location" in headers else headers.get("Content-Length"))
            if self.most is None:
                self.most = int(stated) if (stated or "").isdigit() else None
            elif stated != str(self.most):
                self.refuse(stated)
        elif method == "GET":
            stated = headers.get("Content-Length", "")
            if self.most is not None and stated.isdigit() and int(stated) > self.most:
                self.refuse(stated)
            name = "iter_bytes" if hasattr(response, "iter_bytes") else "iter_content"
            setattr(response, name, self.counted(getattr(response, name)))

    def counted(self, chunks):
        """A stream of bytes that ends where there are more than there may be."""

        def count(*args, **kwargs):
            received = 0
            for chunk in chunks(*args, **kwargs):
                self.heard = time.monotonic()
                received += len(chunk)
                if self.most is not None and received > self.most:
                    self.refuse(f"{received} or more")
                yield chunk

        return count

    def refuse(self, received):
        what = "is published with" if self.source.size is not None else "is, as the Hub says, one of"
        raise IntegrityError(
            f"{self.source} {what} {self.most} bytes, and something else was sent; it was not kept. Try another "
            "network, or another version of sslzoo; if it stays, tell whoever publishes the model. "
            f"Received: {received} bytes"
        )


def _before_request(request):
    watch = getattr(_Watch.open, "by", None)
    if watch is not None:
        left = watch.left()
        limits = request.extensions.get("timeout", {})
        kinds = ("connect", "read", "write", "pool")
        request.extensions["timeout"] = {kind: min(limits.get(kind) or left, left) for kind in kinds}


def _after_response(response, **_):
    watch = getattr(_Watch.open, "by", None)
    if watch is not None:
        watch.check(response)


def _check_place(path, file):
    """Raise if a cached file is not in the cache."""
    from huggingface_hub import constants

    repository = _root(path, file).parent.parent  # which a person may have moved to another disk, and linked
    place = Path(os.path.realpath(path))
    if not any(place.is_relative_to(os.path.realpath(home)) for home in (constants.HF_HUB_CACHE, repository)):
        raise IntegrityError(f"A file of the cache leads out of it; remove it. Received: '{path}' -> '{place}'")


def _check_content(source, path, expected):
    wrong = _difference(path, expected)
    if wrong is None:
        return
    try:
        path = source.fetch(again=True)  # replaces the file at one stroke: others may be reading it
        wrong = _difference(path, expected)
    except HubError as error:
        _discard(path)
        raise IntegrityError(
            f"{source} in the cache was damaged ({wrong}) and has been removed; fetching it again failed. {error}"
        ) from error
    if wrong is None:
        return
    _discard(path)
    where = "the manifest of sslzoo" if expected else "the Hub itself"
    raise IntegrityError(
        f"{source} is not the file that {where} says it is, also after a second download; it was not kept. Try another "
        "network, or another version of sslzoo; if it stays, tell whoever publishes the model. verify=False loads it "
        f"at your own risk. Expected {wrong}"
    )


def _difference(path, expected):
    """In words, how a cached file differs from what it should be; None if it does not."""
    try:
        if expected is not None:
            size, digest = os.path.getsize(path), sha256(path)
            if digest != expected["sha256"]:
                return f"sha256 {expected['sha256']}, {expected['bytes']} bytes. Received: {digest}, {size} bytes"
            return None
        # The cache calls a file as the Hub does: sha256 of large files, git's hash of small ones. Where a file system
        # has no links, the name is lost.
        name = os.path.basename(os.path.realpath(path)) if os.path.islink(path) else ""
        if re.fullmatch("[0-9a-f]{64}", name):
            digest = sha256(path)
        elif re.fullmatch("[0-9a-f]{40}", name):
            digest = git_hash(Path(path).read_bytes())
        else:
            warnings.warn(
                f"The cache does not say which hash this file has on the Hub, so it is taken as it is: '{path}'. "
                "Models of the manifest are checked all the same.",
                stacklevel=2,
            )
            return None
        return None if digest == name else f"hash {name}. Received: {digest}"
    except OSError as error:
        return f"a readable file. Received: {error}"


def _discard(path):
    """Removes a file from the cache, so that the next attempt downloads it."""
    for place in {os.path.realpath(path), path}:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place)


def git_hash(content: bytes) -> str:
    """Name that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclasses.dataclass(frozen=True)
class Remote:
    """A commit of a repository: its files, path -> {"bytes", "sha256" (of large files, else None), "git"}."""

    commit: str
    private: bool
    files: dict[str, dict]

    def has(self, file: str, content: bytes) -> bool:
        """Whether that file is there with that content."""
        facts = self.files.get(file)
        if facts is None:
            return False
        if facts["sha256"] is not None:
            return facts["sha256"] == hashlib.sha256(content).hexdigest()
        return facts["git"] == git_hash(content)


def remote(repository: str, revision: str | None = None, token: str | None = None) -> Remote:
    """What a repository holds.

    Raises:
        HubError: the Hub cannot be reached, refuses, or has no such repository.
    """
    return _persist(
        lambda: _remote(_api(token), repository, revision), f"look at {SCHEME}{repository}", repository, token
    )


def _api(token):
    import huggingface_hub

    return huggingface_hub.HfApi(token=token, library_name="sslzoo")


def _remote(api, repository, revision=None):
    found = api.model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT)
    files = {
        sibling.rfilename: {
            "bytes": sibling.size,
            "sha256": sibling.lfs["sha256"] if sibling.lfs else None,
            "git": sibling.blob_id,
        }
        for sibling in found.siblings or ()
    }
    return Remote(found.sha, bool(found.private), files)


def download_text(repository: str, file: str, revision: str, token: str | None = None) -> str:
    """The content of a text file of a repository."""
    source = _Source(check_repository(repository), file, check_revision(revision), token)
    return Path(source.fetch()).read_text("utf-8", errors="replace")


def open_repository(repository: str, private: bool | None, token: str | None) -> bool:
    """Makes a repository unless it exists; returns whether it was made.

    Raises:
        HubError: the Hub cannot be reached or refuses, or it exists and is not as private as asked.
    """
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    api = _api(token)

    def open_it():
        try:
            return api.model_info(repository, timeout=TIMEOUT)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError:
            api.create_repo(repository, private=private, exist_ok=True)
            return None

    found = _persist(open_it, f"open {SCHEME}{repository}", repository, token)
    if found is not None and private is not None and bool(found.private) != private:
        raise HubError(
            f"{SCHEME}{repository} exists and is {'private' if found.private else 'public'}; change that in its "
            f"settings ({url(repository)}/settings), or publish without private. Received: private={private}"
        )
    return found is None


def commit(
    repository: str,
    compose: Callable[[Remote], tuple[dict[str, bytes], list[str]]],
    message: str,
    create_pr: bool = False,
    token: str | None = None,
) -> tuple[str, list[str], list[str], str | None]:
    """Changes a repository in one commit, or not at all if there is nothing to change.

    Args:
        repository: "organisation/name".
        compose: given what the repository holds, returns the files that it should hold, path -> content, and the paths
            to remove. Called again if somebody else commits meanwhile.
        message: of the commit.
        create_pr: open a pull request instead of changing the main branch.
        token: of the Hub.

    Returns:
        (commit, changed files, removed files, address of the pull request or None). Without changes the commit is the
        newest there is.

    Raises:
        HubError: the Hub cannot be reached or refuses.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    api = _api(token)
    sent = ([], [])

    def change():
        # All over again at each attempt: a commit whose answer was lost is found done.
        nonlocal sent
        before = _remote(api, repository)
        files, unwanted = compose(before)
        changed = {file: content for file, content in sorted(files.items()) if not before.has(file, content)}
        removed = sorted(set(unwanted) & set(before.files))
        if not changed and not removed:
            return before.commit, *sent, None
        sent = list(changed), removed
        operations = [CommitOperationAdd(file, content) for file, content in changed.items()]
        operations += [CommitOperationDelete(file) for file in removed]
        done = api.create_commit(
            repository, operations, commit_message=message, create_pr=create_pr, parent_commit=before.commit
        )
        return done.oid, *sent, done.pr_url

    # Of a pull request there is no telling whether the answer was lost after it was opened.
    attempts = 1 if create_pr else None
    return _persist(change, f"commit to {SCHEME}{repository}", repository, token, attempts)


# ------------------------------------------------------------------ faults


def _persist(action, doing, repository, token=None, attempts=None):
    """What `action` returns, tried again after faults that pass."""
    start = time.monotonic()
    pauses = [*PAUSES, None][-attempts if attempts else None :]
    for pause in pauses:
        try:
            return action()
        except SSLZooError:
            raise
        except Exception as error:  # whatever the client stumbles over
            fault = _origin(error)
            asked = _asked_pause(fault)
            spent = pause is None or time.monotonic() - start > PATIENCE or (asked or 0) > LONGEST_PAUSE
            if spent or not _passes(fault):
                text = str(error) + str(fault)
                raise HubError(_explain(fault, doing, repository, token)) from (
                    None if _without_tokens(text, token) != text else error
                )
            sleep(asked if asked is not None else pause)


def _origin(error):
    """The fault behind an error that says only that nothing was found in the cache, or that an upload failed."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    wraps = (ValueError, RuntimeError)
    while error.__cause__ is not None and (isinstance(error, LocalEntryNotFoundError) or type(error) in wraps):
        error = error.__cause__
    return error


def _status(error):
    return getattr(getattr(error, "response", None), "status_code", None)


def _asked_pause(error):
    """Seconds that the Hub asked to wait, if it did."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    value = headers.get("Retry-After", "")
    return float(value) if value.strip().isdigit() else None


def _is_offline(error):
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    return isinstance(error, (OfflineModeIsEnabled, LocalEntryNotFoundError)) or _is_network(error)


def _is_network(error):
    if _status(error) is not None or isinstance(error, ValueError):  # as is an answer that is no JSON
        return False
    libraries = {kind.__module__.split(".")[0] for kind in type(error).__mro__}
    return isinstance(error, (ConnectionError, TimeoutError)) or bool(libraries & _NETWORK_LIBRARIES)


def _is_cut_short(error):
    return type(error) is OSError and error.errno is None and "onsistency check failed" in str(error)


def _passes(error):
    from huggingface_hub.errors import OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return False
    return _status(error) in _PASSING or _is_network(error) or _is_cut_short(error)


def _explain(error, doing, repository, token):
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = _status(error)
    page = url(repository)
    if isinstance(error, OfflineModeIsEnabled):
        advice = (
            "Offline mode is on (HF_HUB_OFFLINE), and the cache does not hold what is asked. Do it once with a "
            "network, or set SSLZOO_WEIGHTS to a folder that holds the model"
        )
    elif isinstance(error, GatedRepoError):
        advice = f"Access is granted on request. Ask for it at {page}, then log in: `hf auth login`, or set HF_TOKEN"
    elif isinstance(error, RevisionNotFoundError):
        advice = f"The repository has no such revision. {page}/commits/main lists those it has"
    elif isinstance(error, EntryNotFoundError) and not isinstance(error, LocalEntryNotFoundError):
        advice = f"The repository has no such file, so perhaps no such part. {page}/tree/main lists what it has"
    elif status in (401, 404) or isinstance(error, RepositoryNotFoundError):
        advice = (
            f"There is no repository {page}, or it is private and this machine's token does not open it. "
            "Check the name; log in with `hf auth login`, or set HF_TOKEN"
        )
    elif status == 403:
        advice = (
            "The token does not allow this. Take one that may read, or to publish write, this repository "
            "(https://huggingface.co/settings/tokens), or publish under a name of your own"
        )
    elif status == 412:
        advice = "Somebody else keeps changing the repository. Look at it, then try again"
    elif status == 429:
        asked = _asked_pause(error)
        advice = f"The Hub wants fewer requests. Try again {f'after {asked:.0f} s' if asked else 'later'}, or log in"
    elif status is not None and status >= 500:
        advice = f"The Hub has a fault of its own ({_endpoint()}). Try again later"
    elif _is_network(error):
        advice = (
            f"{_endpoint()} cannot be reached, or the connection broke. Check the network, proxy (HTTPS_PROXY) "
            "and HF_ENDPOINT, and try again; what was cached before still loads"
        )
    elif _is_cut_short(error):
        advice = "The file arrives cut short. Try again, or another network"
    elif isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        advice = (
            f"The cache {constants.HF_HUB_CACHE} cannot be written. Make room or give permission, or set HF_HOME to "
            "another folder"
        )
    else:
        advice = "The Hub, or what answers in its place, said something unexpected. Check HF_ENDPOINT, and try again"
    reason = " ".join(str(error).split())[:400] or "no reason given"
    kind = f"status {status}" if status is not None else type(error).__name__
    return _without_tokens(f"Could not {doing}. {advice}. Received: {kind}: {reason}", token)


def _without_tokens(text, token):
    from huggingface_hub import constants

    stored = None
    with contextlib.suppress(OSError):
        stored = Path(constants.HF_TOKEN_PATH).read_text("utf-8").strip()
    for secret in (token, os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN"), stored):
        if isinstance(secret, str) and len(secret) >= 4:
            text = text.replace(secret, "***")
    return _TOKEN.sub("***", text)

"""The Hub, by its own client against a server on this machine: what arrives is what was published, faults pass or end
in one error that says what to do, and the cache is never left poisoned."""

import errno
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

import fake_hub
import pytest
from huggingface_hub import constants, file_download

from sslzoo.errors import HubError, IntegrityError, InvalidInputError
from sslzoo.publishing import hub_commit
from sslzoo.zoo import hub as hubs

NAME = "zoo/model"
FILES = {
    "config.json": b'{"class_name": "Functional"}' * 20,
    "model.weights.h5": bytes(range(256)) * 400,
    "results.json": b'{"name": "model"}' * 30,
    "README.md": b"---\nlibrary_name: keras\n---\n# Model",
    "decoder/config.json": b"{}",
    "decoder/model.weights.h5": b"decoder" * 999,
}
PART = ["config.json", "model.weights.h5"]
PINNED = {path: fake_hub.sha256(content) for path, content in FILES.items()}


@pytest.fixture
def slept(monkeypatch):
    """Seconds that were slept: none."""
    found = []
    monkeypatch.setattr(time, "sleep", found.append)
    return found


@pytest.fixture
def hub(monkeypatch, tmp_path, slept):
    with fake_hub.FakeHub() as hub:
        fake_hub.direct(monkeypatch, hub, tmp_path / "home")
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 256)  # of which these small files have several
        hub.commit = hub.add(NAME, FILES)
        yield hub
        fake_hub.close_connections()


def cache():
    return Path(constants.HF_HUB_CACHE)


def held():
    """Files in the cache, by what they hold: snapshots, and nothing half-done."""
    assert not list(cache().rglob("*.incomplete")) and not list(cache().rglob("tmp_*"))
    found = [path for path in cache().glob("models--*/snapshots/*/**/*") if path.is_file()]
    return {"/".join(path.parts[path.parts.index("snapshots") + 2 :]): path.read_bytes() for path in found}


def fetch(hub, files=PART, revision=None, **options):
    return hubs.fetch(NAME, revision or hub.commit, files, **({"hashes": PINNED} | options))


def assert_fetched(folder, files=PART):
    assert {file: (folder / file).read_bytes() for file in files} == {file: FILES[file] for file in files}


def block_sockets(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("the network was asked")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# ------------------------------------------------------------------ fetch


def test_only_what_is_asked_is_downloaded(hub):
    folder = fetch(hub, [*PART, "results.json"])
    assert_fetched(folder)
    assert folder.name == hub.commit
    assert held() == {file: FILES[file] for file in (*PART, "results.json")}
    assert not hub.asked("decoder|README")


@pytest.mark.parametrize("how", ["sockets blocked", "offline mode"])
def test_what_is_cached_needs_no_network(hub, monkeypatch, how):
    fetch(hub, [*PART, "results.json"])
    assert fetch(hub, ["none.json"], optional=True) is None
    hub.requests.clear()
    if how == "offline mode":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fake_hub.close_connections()
    block_sockets(monkeypatch)
    assert_fetched(fetch(hub))
    assert fetch(hub, ["none.json"], optional=True) is None
    assert hubs.cached(NAME, hub.commit, PART).name == hub.commit
    assert hubs.cached(NAME, hub.commit, [*PART, "decoder/config.json"]) is None
    assert hub.requests == []


def test_branches_and_tags_give_files_of_one_commit(hub):
    hub.repositories[NAME].refs |= {"v1": hub.commit, "feature/x": hub.commit}
    assert_fetched(fetch(hub, revision="v1", hashes=None))
    assert fetch(hub, revision="feature/x", hashes=None).name == hub.commit
    newer = hub.add(NAME, FILES | {"config.json": b"{}"})
    folder = hubs.fetch(NAME, None, PART)
    assert folder.name == newer and (folder / "config.json").read_bytes() == b"{}"
    assert_fetched(fetch(hub, revision="v1", hashes=None))


def test_a_branch_falls_back_on_the_cache_when_offline(hub, monkeypatch):
    hubs.fetch(NAME, None, PART)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    block_sockets(monkeypatch)
    assert_fetched(hubs.fetch(NAME, None, PART))
    assert hubs.fetch(NAME, "main", ["never-asked.json"], optional=True) is None


def test_private_repositories_open_with_the_token(hub, monkeypatch):
    hub.add("zoo/secret", FILES, private=True)
    with pytest.raises(HubError, match=r"no repository http.*/zoo/secret, or it is private.*hf auth login"):
        hubs.fetch("zoo/secret", None, PART)
    assert hubs.fetch("zoo/secret", None, PART, token=fake_hub.TOKEN)
    monkeypatch.setenv("HF_TOKEN", fake_hub.TOKEN)
    assert hubs.fetch("zoo/secret", None, PART)


# ------------------------------------------------------------------ faults


CONFIG, WEIGHTS, STORAGE = "resolve/.*/config.json", "resolve/.*/model.weights.h5", "GET /lfs"


@pytest.mark.parametrize(
    "pattern, kind, options",
    [
        (f"HEAD .*{CONFIG}", "status", {"status": 500}),
        (f"GET .*{CONFIG}", "status", {"status": 500}),
        (f"GET .*{CONFIG}", "status", {"status": 503, "times": 2}),
        (f"HEAD .*{WEIGHTS}", "status", {"status": 429, "headers": {"Retry-After": "3"}, "times": 2}),
        (STORAGE, "status", {"status": 429, "headers": {"Retry-After": "3"}}),
        (STORAGE, "status", {"status": 502}),
        (STORAGE, "drop", {}),
        (STORAGE, "drop", {"times": 3}),
        (f"GET .*{CONFIG}", "drop", {}),
        (STORAGE, "truncate", {}),
        (f"GET .*{CONFIG}", "truncate", {}),
        (STORAGE, "corrupt", {}),
        (f"GET .*{CONFIG}", "corrupt", {}),
    ],
)
@pytest.mark.parametrize("pinned", [PINNED, None], ids=["pinned", "unpinned"])
def test_faults_that_pass_are_survived(hub, slept, pattern, kind, options, pinned):
    hub.fail(pattern, kind, **options)
    assert_fetched(fetch(hub, hashes=pinned))
    assert hub.faults[0].times == 0, "the fault never happened"
    assert held() == {file: FILES[file] for file in PART}
    if "headers" in options:
        assert any(3 <= seconds <= 4 for seconds in slept)
    if kind == "drop":
        assert any("range" in request["headers"] for request in hub.requests), "downloads resume"


FOREVER = 10_000


def refusal(status, code):
    return {"status": status, "headers": {"X-Error-Code": code}}


@pytest.mark.parametrize(
    "pattern, kind, options, error, message",
    [
        ("resolve", "status", {"status": 401}, HubError, "log in with `hf auth login`, or set HF_TOKEN"),
        ("resolve", "status", {"status": 403}, HubError, "The token does not allow this"),
        ("resolve", "status", refusal(403, "GatedRepo"), HubError, "Access is granted on request"),
        ("resolve", "status", refusal(404, "RepoNotFound"), HubError, "There is no repository"),
        ("resolve", "status", refusal(404, "RevisionNotFound"), HubError, "no such revision"),
        ("resolve", "status", refusal(404, "EntryNotFound"), HubError, "no such file, so perhaps no such part"),
        (
            "resolve",
            "status",
            {"status": 429, "headers": {"Retry-After": "5"}},
            HubError,
            "is busy or has a fault of its own",
        ),
        ("resolve", "status", {"status": 500}, HubError, "a fault of its own"),
        ("resolve", "status", {"status": 200, "body": b"<html>captive portal"}, HubError, "unexpected.*HF_ENDPOINT"),
        ("resolve", "status", {"status": 404}, HubError, "There is no repository"),
        (STORAGE, "status", {"status": 403}, HubError, "The token does not allow this"),
        (STORAGE, "status", {"status": 500}, HubError, "a fault of its own"),
        (STORAGE, "truncate", {}, HubError, "connection broke"),
        (STORAGE, "corrupt", {}, IntegrityError, "not the file that was published"),
        (f"GET .*{CONFIG}", "corrupt", {}, IntegrityError, "has been removed.*Expected hash [0-9a-f]{64}"),
        (STORAGE, "slow", {}, HubError, "cannot be reached, or the connection broke"),
        (f"HEAD .*{CONFIG}", "slow", {}, HubError, "cannot be reached, or the connection broke"),
        (STORAGE, "redirect", {"headers": {"Location": "http://127.0.0.1:9/x"}}, HubError, "cannot be reached"),
    ],
)
def test_faults_that_stay_end_in_one_clear_error(hub, monkeypatch, pattern, kind, options, error, message):
    for name in ("HF_HUB_DOWNLOAD_TIMEOUT", "HF_HUB_ETAG_TIMEOUT"):
        monkeypatch.setattr(constants, name, 0.1 if kind == "slow" else 10)
    monkeypatch.setattr(file_download, "_ETAG_RETRY_TIMEOUT", 0.1, raising=False)
    hub.fail(pattern, kind, times=FOREVER, **options)
    with pytest.raises(error, match=message) as caught:
        fetch(hub)
    assert "Received: " in str(caught.value) and NAME in str(caught.value)
    assert all(FILES[file] == content for file, content in held().items()), "the cache is poisoned"

    hub.faults.clear()
    assert_fetched(fetch(hub))
    assert held() == {file: FILES[file] for file in PART}


def test_the_hub_may_lie_unpinned_but_not_about_its_own_hash(hub):
    hub.fail(STORAGE, "corrupt", times=FOREVER)
    with pytest.raises(IntegrityError, match="not the file that was published"):
        fetch(hub, hashes=None)
    assert "model.weights.h5" not in held()


def everything_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "home" not in path.parts}


COMMIT_OF_NOBODY = "0" * 40


@pytest.mark.parametrize("pinned", [PINNED, None], ids=["pinned", "unpinned"])
@pytest.mark.parametrize(
    "status, headers",
    [
        (200, {"ETag": '"../../../../{outside}"'}),
        (200, {"ETag": '"/{outside}"'}),
        (200, {"ETag": '".."'}),
        (200, {"ETag": '""'}),
        (200, {"ETag": '"x"'}),
        (200, {"X-Linked-Etag": '"../../../../{outside}"', "ETag": '"' + 40 * "a" + '"'}),
        (302, {"X-Linked-Etag": '"../../../../{outside}"', "Location": "{url}/x"}),
        (200, {"X-Repo-Commit": "../../../{outside}", "ETag": '"' + 40 * "a" + '"'}),
        (404, {"X-Repo-Commit": "../../../{outside}", "X-Error-Code": "EntryNotFound"}),
    ],
)
def test_a_server_cannot_lead_out_of_the_cache(hub, tmp_path, status, headers, pinned):
    """Its answers become parts of paths; so what is no hash and no commit is refused before anything is written."""
    (tmp_path / ".bashrc").write_text("mine")
    before = everything_in(tmp_path)
    headers = {"X-Repo-Commit": COMMIT_OF_NOBODY} | headers
    headers = {k: v.format(outside="../" + str(tmp_path / ".bashrc")[1:], url=hub.url) for k, v in headers.items()}
    hub.fail("(HEAD|GET) .*config.json", status=status, headers=headers, body=b"evil", times=FOREVER)
    with pytest.raises(HubError, match=r"Received: ") as caught:
        fetch(hub, ["config.json"], revision="main", hashes=pinned)
    assert "by hexadecimal hashes" in str(caught.value)
    assert everything_in(tmp_path) == before and held() == {}
    assert not hub.asked("GET .*config.json")


def test_a_second_answer_cannot_lead_out_either(hub, tmp_path):
    """The first download is damaged, and the answer to the second names another place."""
    hub.fail(f"GET .*{CONFIG}", "corrupt")
    (tmp_path / ".bashrc").write_text("mine")

    def turn(path, *_, **__):
        hub.fail(
            "HEAD .*config.json",
            status=200,
            headers={"ETag": f'"../../../../..{tmp_path}/.bashrc"', "X-Repo-Commit": hub.commit},
            body=b"evil",
            times=FOREVER,
        )
        return real(path, *_, **__)

    real, hubs._check_place = hubs._check_place, turn
    try:
        with pytest.raises(IntegrityError, match="by hexadecimal hashes"):
            fetch(hub, ["config.json"])
    finally:
        hubs._check_place = real
    assert (tmp_path / ".bashrc").read_text() == "mine"


def test_passwords_in_the_endpoint_are_never_printed(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://me:secret-word@127.0.0.1:9")
    template = "http://me:secret-word@127.0.0.1:9/{repo_id}/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    for action in (lambda: fetch(hub), lambda: hubs.remote(NAME)):
        with pytest.raises(HubError) as caught:
            action()
        assert "secret-word" not in "".join(traceback.format_exception(caught.value))
    assert "secret-word" not in hubs.url(NAME)


def test_another_commit_than_the_manifest_has_is_refused(hub):
    changed = hub.add(NAME, FILES | {"model.weights.h5": b"other weights"})
    with pytest.raises(IntegrityError, match=r"model\.weights\.h5.*is not the file that was published"):
        fetch(hub, revision=changed)
    assert held() == {"config.json": FILES["config.json"]}


def test_no_network_at_all(hub, monkeypatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", "http://127.0.0.1:9/{repo_id}/{revision}/{filename}")
    with pytest.raises(HubError, match=r"127\.0\.0\.1:9 cannot be reached.*HTTPS_PROXY.*HF_ENDPOINT"):
        fetch(hub)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match=r"Offline mode is on \(HF_HUB_OFFLINE\).*SSLZOO_WEIGHTS"):
        fetch(hub)


def test_offline_nothing_is_published_or_looked_at(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match=r"Offline mode is on \(HF_HUB_OFFLINE\), and this needs the Hub. Unset it"):
        hubs.remote(NAME)


def test_a_full_disk_is_said_to_be_full(hub, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file_download, "_chmod_and_move", full)
    with pytest.raises(HubError, match=r"The cache .* cannot be written\. Make room.*HF_HOME.*No space left"):
        fetch(hub)
    monkeypatch.undo()
    assert held() == {}


# ------------------------------------------------------------------ tokens


def test_the_token_stays_with_the_hub(hub, monkeypatch):
    """Large files lie on another host, and a fault may send the client to a third."""
    monkeypatch.setenv("HF_TOKEN", fake_hub.TOKEN)
    with fake_hub.FakeHub() as elsewhere:
        fetch(hub)
        asked = [(f"http://{r['headers']['host']}", "authorization" in r["headers"]) for r in hub.requests]
        assert (hub.url, True) in asked and (hub.storage_url, False) in asked
        assert (hub.storage_url, True) not in asked

        hub.fail("HEAD .*decoder/model.weights.h5", "redirect", headers={"Location": f"{elsewhere.url}/steal"})
        hub.fail("GET /api/models", "redirect", headers={"Location": f"{elsewhere.url}/steal"})
        with pytest.raises(HubError):
            fetch(hub, ["decoder/model.weights.h5"])
        with pytest.raises(HubError):
            hubs.remote(NAME)
        assert elsewhere.requests
        assert not any("authorization" in request["headers"] for request in elsewhere.requests)
    assert "decoder/model.weights.h5" not in held()


@pytest.mark.parametrize("kind", ["argument", "environment", "file"])
def test_tokens_never_appear_in_messages(hub, monkeypatch, kind):
    secret = {"argument": "hf_abcdefghijklmnop", "environment": "my-own-secret", "file": "another-secret"}[kind]
    if kind == "environment":
        monkeypatch.setenv("HF_TOKEN", secret)
    if kind == "file":
        Path(constants.HF_TOKEN_PATH).parent.mkdir(parents=True, exist_ok=True)
        Path(constants.HF_TOKEN_PATH).write_text(secret)
    echo = {"X-Error-Message": f"bad header Authorization: Bearer {secret}", "Content-Type": "text/plain"}
    hub.fail(".", status=403, headers=echo, body=f"token={secret}".encode(), times=FOREVER)
    with pytest.raises(HubError) as caught:
        fetch(hub, token=secret if kind == "argument" else None)
    assert secret not in str(caught.value) and "***" in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__suppress_context__  # whose message would show it


# ------------------------------------------------------------------ the cache


@pytest.mark.parametrize("pinned", [PINNED, None], ids=["pinned", "unpinned"])
@pytest.mark.parametrize("file", PART)
def test_a_damaged_file_in_the_cache_is_downloaded_again(hub, pinned, file):
    folder = fetch(hub, hashes=pinned)
    (folder / file).write_bytes(b"x" + FILES[file][1:])
    hub.requests.clear()
    assert_fetched(fetch(hub, hashes=pinned))
    assert {entry.rpartition("/")[2] for entry in hub.asked("HEAD")} == {file}
    hub.requests.clear()
    assert_fetched(fetch(hub, hashes=pinned))
    assert hub.requests == []


def test_a_damaged_file_is_removed_when_it_cannot_be_had_again(hub, monkeypatch):
    folder = fetch(hub)
    (folder / "config.json").write_bytes(b"damaged")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(IntegrityError, match=r"in the cache was damaged .* has been removed; fetching it again failed"):
        fetch(hub)
    assert held() == {"model.weights.h5": FILES["model.weights.h5"]}
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    assert_fetched(fetch(hub))


def test_a_cache_without_links_is_checked_by_the_hashes_at_hand_without_warnings(hub, recwarn):
    """Windows keeps plain files, whose names are no hashes."""
    folder = fetch(hub)
    for file in PART:
        content = (folder / file).read_bytes()
        (folder / file).unlink()
        (folder / file).write_bytes(content)
    assert_fetched(fetch(hub))
    (folder / "config.json").write_bytes(b"damaged")
    assert_fetched(fetch(hub))
    assert not recwarn.list
    (folder / "config.json").unlink()
    (folder / "config.json").write_bytes(FILES["config.json"])
    with pytest.warns(UserWarning, match="Neither results.json nor the cache has a hash"):
        fetch(hub, hashes=None)


def test_a_store_that_repositories_share_is_looked_through_and_left_alone(hub):
    """As the client keeps large files since its version 2: the blob is a link to a file with a name of its own."""
    folder = fetch(hub)
    blob = folder / os.readlink(folder / PART[1])
    shared = cache() / "blobs" / "ab" / ("ab" * 32)
    shared.parent.mkdir(parents=True)
    blob.rename(shared)
    blob.symlink_to(shared)
    hub.requests.clear()
    assert_fetched(fetch(hub, hashes=None))
    assert hub.requests == []
    shared.write_bytes(b"other")  # which another repository may hold to be right
    assert_fetched(fetch(hub, hashes=None))
    assert shared.read_bytes() == b"other"


def test_a_wrong_file_in_a_cache_that_cannot_be_written_is_said_to_be_wrong(hub, monkeypatch):
    folder = fetch(hub)
    (folder / "config.json").write_bytes(b"damaged")

    def refuse(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(IntegrityError, match="was damaged"):
        fetch(hub)


def as_folder(entry):
    entry.unlink()
    entry.mkdir()


def as_link_to_another(entry):
    target = os.path.realpath(entry.parent / PART[1])
    entry.unlink()
    entry.symlink_to(target)


@pytest.mark.parametrize("become", [as_folder, as_link_to_another])
def test_an_entry_that_is_no_file_of_its_own_is_downloaded_again(hub, become):
    become(fetch(hub) / "config.json")
    assert_fetched(fetch(hub))
    assert held() == {file: FILES[file] for file in PART}


def test_damaged_results_are_downloaded_again_where_no_hash_is_known(hub, monkeypatch):
    """A plain file, of a commit that nobody pinned."""
    file = "results.json"
    entry = fetch(hub, hashes=None, files=[file]) / file
    for damaged in (b'{"name": "mod', b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"):
        entry.unlink()
        entry.write_bytes(damaged)
        assert (fetch(hub, hashes=None, files=[file]) / file).read_bytes() == FILES[file]
    entry.unlink()
    entry.write_bytes(b"{")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(IntegrityError, match=r"in the cache was damaged .* has been removed"):
        fetch(hub, hashes=None, files=[file])


def test_offline_a_branch_that_is_not_cached_names_the_commit_that_is(hub, monkeypatch):
    fetch(hub)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match=f"HF_HUB_OFFLINE.*; the cache holds hf://{NAME}@{hub.commit}"):
        hubs.fetch(NAME, None, PART)
    with pytest.raises(HubError) as caught:
        hubs.fetch(NAME, "0" * 40, PART)
    assert "the cache holds" not in str(caught.value)


def test_a_cache_that_names_no_commit_is_said_to_be_damaged(hub, monkeypatch):
    hubs.fetch(NAME, None, PART)
    [name] = cache().glob("*/refs/main")
    name.write_text("../../x")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="The cache of this repository is damaged; remove it from"):
        hubs.fetch(NAME, None, PART)


def test_unverified_files_are_taken_as_they_are(hub):
    folder = fetch(hub)
    (folder / "config.json").write_bytes(b"mine")
    assert (fetch(hub, verify=False) / "config.json").read_bytes() == b"mine"


def test_links_out_of_the_cache_are_refused(hub, tmp_path):
    folder = fetch(hub)
    (tmp_path / "outside").write_bytes(FILES["config.json"])
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "outside")
    for verify in (True, False):
        with pytest.raises(IntegrityError, match=r"leads out of it.*outside"):
            fetch(hub, verify=verify)


def test_a_repository_moved_to_another_disk_is_followed(hub, tmp_path):
    fetch(hub)
    moved = next(cache().glob("models--*")).rename(tmp_path / "other-disk")
    (cache() / "models--zoo--model").symlink_to(moved)
    assert_fetched(fetch(hub))


@pytest.mark.parametrize("file", ["../outside", "/etc/passwd", "a\\..\\b", "C:/x", "a//b", ""])
def test_paths_that_could_lead_outside_are_refused(hub, file):
    with pytest.raises(InvalidInputError, match="a file inside the repository"):
        fetch(hub, [file])
    assert hub.requests == []


def test_a_server_that_names_no_commit_is_refused(hub, tmp_path):
    hub.fail("HEAD", "status", status=200, headers={"X-Repo-Commit": "../../../outside", "ETag": '"e"'}, times=FOREVER)
    with pytest.raises(HubError):
        fetch(hub, revision="main", hashes=None)
    assert not list(tmp_path.rglob("outside*"))


FETCH = """
import sys
from sslzoo.zoo import hub
folder = hub.fetch(sys.argv[1], sys.argv[2], sys.argv[3:])
print({file: (folder / file).stat().st_size for file in sys.argv[3:]})
"""


def start(hub, *files, revision=None):
    root = str(Path(hubs.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root}
    command = [sys.executable, "-c", FETCH, NAME, revision or hub.commit, *files]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_ten_processes_at_once(hub):
    hub.fail(STORAGE, "drop", times=2)
    processes = [start(hub, *PART) for _ in range(10)]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0] * 10, outputs
    assert len({out for out, _ in outputs}) == 1
    assert held() == {file: FILES[file] for file in PART}


def test_a_killed_download_leaves_nothing_that_is_used(hub):
    hub.fail(STORAGE, "slow", seconds=30)
    process = start(hub, *PART)
    deadline = time.monotonic() + 60
    while not hub.asked(STORAGE) and time.monotonic() < deadline:
        process.poll()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert_fetched(fetch(hub))


# ------------------------------------------------------------------ commit


NEW = FILES | {"model.weights.h5": b"new weights" * 100}


@pytest.fixture
def writer(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", fake_hub.TOKEN)
    return hub


def commit(files, unwanted=(), name="me/new", **options):
    before = hubs.remote(name)
    changed = {file: content for file, content in files.items() if not before.has(file, content)}
    return hub_commit.commit(name, before.commit, changed, list(unwanted), "test", **options)


def test_a_folder_arrives_in_one_commit(writer):
    assert hub_commit.open_repository("me/new", None, None) is True
    revision, pull_request = commit(NEW)
    assert pull_request is None
    assert writer.files("me/new") == NEW | {".gitattributes": writer.files("me/new")[".gitattributes"]}
    assert len(writer.repositories["me/new"].commits) == 2  # with the first, empty one
    assert hub_commit.open_repository("me/new", None, None) is False
    folder = hubs.fetch("me/new", revision, PART)
    assert {file: (folder / file).read_bytes() for file in PART} == {file: NEW[file] for file in PART}


def test_pull_requests_leave_the_main_branch_alone(writer):
    head = writer.repositories[NAME].refs["main"]
    revision, address = commit({"config.json": b"new"}, name=NAME, create_pr=True)
    assert address.endswith("/discussions/1")
    assert writer.repositories[NAME].refs["main"] == head and writer.repositories[NAME].refs["refs/pr/1"] == revision
    folder = hubs.fetch(NAME, "refs/pr/1", ["config.json"])
    assert (folder / "config.json").read_bytes() == b"new"


@pytest.mark.parametrize(
    "pattern, options, message",
    [
        ("repos/create", {"status": 401}, "hf auth login"),
        ("repos/create", {"status": 403}, "The token does not allow this.*write.*settings/tokens"),
        ("PUT /lfs", {"status": 403}, "The token does not allow this"),
        ("commit/main", {"status": 500}, "a fault of its own"),
        ("commit/main", {"status": 412}, "Somebody else changed the repository meanwhile"),
        ("commit/main", {"status": 200, "body": b"<html>"}, "something unexpected"),
    ],
)
def test_faults_that_stay_change_nothing(writer, pattern, options, message):
    writer.fail(pattern, times=FOREVER, **options)
    with pytest.raises(HubError, match=message):
        hub_commit.open_repository("me/new", None, None)
        commit(NEW)
    assert len(getattr(writer.repositories.get("me/new"), "commits", [1])) == 1


def test_without_a_token_nothing_is_published(hub):
    with pytest.raises(HubError, match="hf auth login"):
        hub_commit.open_repository("me/new", None, None)
    with pytest.raises(HubError, match=r"Could not open hf://forbidden/new.*under a name of your own"):
        hub_commit.open_repository("forbidden/new", None, fake_hub.TOKEN)


def test_what_was_to_be_private_is_never_public(writer):
    with pytest.raises(HubError, match=r"exists and is public.*settings.*private=True"):
        hub_commit.open_repository(NAME, True, None)
    assert hub_commit.open_repository("me/secret", True, None)
    assert writer.repositories["me/secret"].private
    with pytest.raises(HubError, match="exists and is private"):
        hub_commit.open_repository("me/secret", False, None)
    assert hub_commit.open_repository("me/secret", None, None) is False


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "path, expected",
    [
        ("hf://org/name", ("org/name", None)),
        ("hf://org/na.me-1@v1.0", ("org/na.me-1", "v1.0")),
        ("hf://org/name@refs/pr/1", ("org/name", "refs/pr/1")),
    ],
)
def test_names_of_repositories(path, expected):
    assert hubs.parse(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "hf://",
        "hf://name",
        "hf://a/b/c",
        "hf://a/b@",
        "hf://../b",
        "hf://a/..",
        "hf://a/b@../c",
        "hf://a/b@x/../y",
        "hf://a/b@/x",
        "hf://a/b@x y",
        "hf://a/b@x\\y",
        "hf:///b",
        "hf://a/b@..",
        "hf://a--b/c",
        "hf://a/b@v1\n",
        "hf://a/b.git",
        "hf://a/-b",
        "hf://a/b.",
        "hf://a/" + "b" * 95,
    ],
)
def test_names_that_are_none(path):
    with pytest.raises(InvalidInputError, match="Received"):
        hubs.parse(path)


def test_git_names_files_so():
    assert hubs.git_hash(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"  # git hash-object
    assert hubs.git_hash(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert hashlib.sha256(b"").hexdigest() == fake_hub.sha256(b"")

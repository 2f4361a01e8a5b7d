"""A Hugging Face Hub on this machine: a threaded HTTP server that speaks what `huggingface_hub` uses, with faults to
order.

It keeps repositories in memory, each a list of commits (path -> content), and large files (`*.h5`: Git LFS) on another
host, as the Hub does. Every request is recorded. The endpoints: who am I, create, model info, tree, paths-info,
validate-yaml, preupload, LFS batch and upload, commit (with pull requests), and resolve, which redirects for large
files.
"""

import base64
import contextlib
import dataclasses
import hashlib
import json
import re
import socket
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN = "hf_FakeTokenOfTheFakeHub1234567890"


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def is_large(path):
    return path.endswith(".h5")


@dataclasses.dataclass
class Repository:
    private: bool = False
    commits: dict = dataclasses.field(default_factory=dict)  # commit -> {path: content}
    refs: dict = dataclasses.field(default_factory=dict)  # branch, tag or refs/pr/N -> commit

    def add(self, files, ref="main"):
        number = str(len(self.commits)).encode()
        commit = hashlib.sha1(number + repr(sorted((k, sha256(v)) for k, v in files.items())).encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.refs[ref] = commit
        return commit

    def find(self, revision):
        return revision if revision in self.commits else self.refs.get(revision)


@dataclasses.dataclass
class Fault:
    """What happens to the next `times` requests whose "METHOD path" matches `pattern`.

    `kind`: "status" (answers `status` with `headers` and `body`), "drop" (half of the content, then the connection is
    cut), "truncate" (half of the content, said to be all), "corrupt" (one wrong byte), "redirect" (to `headers`'
    Location), "slow" (waits until the server is closed, or `seconds`), "late" (does what is asked, then answers
    `status`).
    """

    pattern: str
    kind: str = "status"
    status: int = 500
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    times: float = 1
    seconds: float = 60


class FakeHub:
    """The server; `with FakeHub() as hub: hub.url ...`."""

    def __init__(self):
        self.repositories, self.large, self.faults, self.requests = {}, {}, [], []
        self.lock, self.closed = threading.RLock(), threading.Event()
        handler = type("BoundHandler", (Handler,), {"hub": self})
        self.servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
        self.url, self.storage_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in self.servers)

    def __enter__(self):
        for server in self.servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.closed.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, private=False, ref="main"):
        """Commits files to a repository, made if need be; returns the commit."""
        repository = self.repositories.setdefault(name, Repository(private))
        self.large.update({sha256(content): content for path, content in files.items() if is_large(path)})
        return repository.add(files, ref)

    def files(self, name, revision="main"):
        repository = self.repositories[name]
        return repository.commits[repository.find(revision)]

    def fail(self, pattern, kind="status", **options):
        self.faults.append(Fault(pattern, kind, **options))

    def asked(self, pattern=""):
        """ "METHOD path" of the requests so far that match."""
        return [f"{r['method']} {r['path']}" for r in self.requests if re.search(pattern, f"{r['method']} {r['path']}")]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *_):
        pass

    def handle_any(self):
        length = int(self.headers.get("Content-Length") or 0)
        self.body = (
            self.read_chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self.rfile.read(length)
        )
        parts = urllib.parse.urlsplit(self.path)
        self.query = urllib.parse.parse_qs(parts.query)
        self.where = urllib.parse.unquote(parts.path)
        self.fault = None
        with self.hub.lock:
            record = {
                "method": self.command,
                "path": self.path,
                "headers": {k.lower(): v for k, v in self.headers.items()},
            }
            self.hub.requests.append(record)
            for fault in self.hub.faults:
                if fault.times > 0 and re.search(fault.pattern, f"{self.command} {self.path}"):
                    fault.times -= 1
                    self.fault = fault
                    break
        if self.fault and self.fault.kind == "status":
            return self.answer(self.fault.body, self.fault.status, **self.fault.headers)
        if self.fault and self.fault.kind == "redirect":
            return self.answer(b"", 302, **self.fault.headers)
        if self.fault and self.fault.kind == "slow":
            self.hub.closed.wait(self.fault.seconds)
        with self.hub.lock:
            for pattern, answer in self.ROUTES:
                if match := re.fullmatch(pattern, f"{self.command} {self.where}"):
                    return answer(self, *match.groups())
        return self.refuse(404, "no such endpoint")

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def read_chunks(self):
        content = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    # -------------------------------------------------------------- answers

    def answer(self, content, status=200, **headers):
        if self.fault and self.fault.kind == "late" and status < 300:
            status, content = self.fault.status, b""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

    def answer_json(self, value, status=200, **headers):
        self.answer(json.dumps(value).encode(), status, Content_Type="application/json", **headers)

    def refuse(self, status, message, code=None):
        headers = {"X_Error_Message": message} | ({"X_Error_Code": code} if code else {})
        self.answer_json({"error": message}, status, **headers)

    def send_content(self, content, **headers):
        """A file's content, or a range of it, as the fault has it."""
        start, status = 0, 200
        if match := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
            start, status = int(match[1]), 206
            headers["Content_Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        kind = self.fault.kind if self.fault and self.command == "GET" else None
        if kind == "corrupt":
            content = content[:-1] + bytes([content[-1] ^ 1])
        content = content[start:]
        if kind == "truncate":
            return self.answer(content[: len(content) // 2], status, **headers)
        if kind != "drop":
            return self.answer(content, status, **headers)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    # -------------------------------------------------------------- access

    def is_known(self):
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def repository(self, name, write=False):
        """The repository; None if the answer was a refusal."""
        found = self.hub.repositories.get(name)
        if write and not self.is_known():
            self.refuse(401, "Invalid username or password.")
        elif found is None or (found.private and not self.is_known()):
            self.refuse(404 if self.is_known() else 401, "Repository not found", "RepoNotFound")
        else:
            return found
        return None

    def files_at(self, name, revision):
        """(commit, files), or None if the answer was a refusal."""
        repository = self.repository(name)
        if repository is None:
            return None
        commit = repository.find(revision)
        if commit is None:
            self.refuse(404, f"Invalid rev id: {revision}", "RevisionNotFound")
            return None
        return commit, repository.commits[commit]

    # -------------------------------------------------------------- endpoints

    def whoami(self):
        return self.answer_json({"name": "tester", "type": "user"}) if self.is_known() else self.refuse(401, "Who?")

    def create(self):
        if not self.is_known():
            return self.refuse(401, "Invalid username or password.")
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        if name.startswith("forbidden/"):
            return self.refuse(403, "You don't have the rights to create a model under the namespace forbidden")
        url = {"url": f"{self.hub.url}/{name}"}
        if name in self.hub.repositories:
            return self.answer_json(url, 409)
        private = asked.get("visibility") == "private" or asked.get("private") is True
        self.hub.add(name, {".gitattributes": b"*.h5 filter=lfs diff=lfs merge=lfs -text\n"}, private)
        return self.answer_json(url)

    def info(self, name, revision=None):
        if (found := self.files_at(name, revision or "main")) is None:
            return None
        commit, files = found
        siblings = []
        for path, content in sorted(files.items()):
            sibling = {"rfilename": path}
            if "blobs" in self.query:
                sibling |= {"size": len(content), "blobId": git_hash(content)}
                if is_large(path):
                    sibling["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 130}
            siblings.append(sibling)
        private = self.hub.repositories[name].private
        return self.answer_json(
            {"id": name, "modelId": name, "sha": commit, "private": private, "siblings": siblings, "tags": []}
        )

    def tree(self, name, revision, _=None):
        if (found := self.files_at(name, revision)) is None:
            return None
        return self.answer_json([self.tree_entry(path, content) for path, content in sorted(found[1].items())])

    def paths_info(self, name, revision):
        if (found := self.files_at(name, revision)) is None:
            return None
        asked = json.loads(self.body)["paths"]
        return self.answer_json([self.tree_entry(path, found[1][path]) for path in asked if path in found[1]])

    @staticmethod
    def tree_entry(path, content):
        entry = {"type": "file", "path": path, "size": len(content), "oid": git_hash(content)}
        if is_large(path):
            entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 130}
        return entry

    def validate_yaml(self):
        import yaml

        text = json.loads(self.body)["content"]
        problems = []
        try:
            data = yaml.safe_load(text.split("---\n")[1])
            for model in data.get("model-index", []):
                for result in model["results"]:
                    assert result["task"]["type"] and result["dataset"]["type"] and result["dataset"]["name"]
                    assert all(metric["type"] and "value" in metric for metric in result["metrics"])
        except Exception as error:
            problems.append({"message": f"{type(error).__name__}: {error}"})
        return self.answer_json({"errors": problems, "warnings": []}, 400 if problems else 200)

    def preupload(self, name, revision):
        if (repository := self.repository(name, write=True)) is None:
            return None
        files = repository.commits[repository.find(revision)]
        modes = [
            {
                "path": file["path"],
                "uploadMode": "lfs" if is_large(file["path"]) else "regular",
                "shouldIgnore": False,
                "oid": None if file["path"] not in files else git_hash(files[file["path"]]),
            }
            for file in json.loads(self.body)["files"]
        ]
        return self.answer_json({"files": modes})

    def lfs_batch(self, name):
        if self.repository(name, write=True) is None:
            return None
        objects = [
            {"oid": item["oid"], "size": item["size"]}
            | (
                {}
                if item["oid"] in self.hub.large
                else {"actions": {"upload": {"href": f"{self.hub.storage_url}/lfs/{item['oid']}"}}}
            )
            for item in json.loads(self.body)["objects"]
        ]
        return self.answer_json({"transfer": "basic", "objects": objects})

    def lfs_upload(self, digest):
        if sha256(self.body) != digest:
            return self.refuse(400, "wrong content")
        self.hub.large[digest] = self.body
        return self.answer(b"")

    def lfs_download(self, digest):
        content = self.hub.large.get(digest)
        return self.refuse(404, "no such object") if content is None else self.send_content(content)

    def commit(self, name, revision):
        if (repository := self.repository(name, write=True)) is None:
            return None
        head = repository.find(revision)
        files = dict(repository.commits[head])
        for line in self.body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header" and value.get("parentCommit", head) != head:
                return self.refuse(412, "A commit has happened since. Please refresh and try again.")
            if key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif key == "deletedFile":
                del files[value["path"]]
        asks_pr = "create_pr" in self.query
        number = sum(ref.startswith("refs/pr/") for ref in repository.refs) + 1
        commit = repository.add(files, f"refs/pr/{number}" if asks_pr else revision)
        answer = {"success": True, "commitOid": commit, "commitUrl": f"{self.hub.url}/{name}/commit/{commit}"}
        if asks_pr:
            answer["pullRequestUrl"] = f"{self.hub.url}/{name}/discussions/{number}"
        return self.answer_json(answer)

    def resolve(self, name, rest):
        revision, path = None, rest
        repository = self.hub.repositories.get(name)
        for ref in sorted([*(repository.refs if repository else ()), *(repository.commits if repository else ())]):
            if rest.startswith(f"{ref}/"):
                revision, path = ref, rest[len(ref) + 1 :]
        if (found := self.files_at(name, revision or rest.split("/")[0])) is None:
            return None
        commit, files = found
        if path not in files:
            headers = {"X_Repo_Commit": commit, "X_Error_Code": "EntryNotFound", "X_Error_Message": "Entry not found"}
            return self.answer(b"Entry not found", 404, **headers)
        content = files[path]
        if is_large(path):
            location = f"{self.hub.storage_url}/lfs/{sha256(content)}"
            linked = {"X_Linked_Etag": f'"{sha256(content)}"', "X_Linked_Size": str(len(content))}
            return self.answer(b"", 302, Location=location, X_Repo_Commit=commit, ETag='"of-the-pointer"', **linked)
        return self.send_content(content, ETag=f'"{git_hash(content)}"', X_Repo_Commit=commit)

    NAME = r"([\w.-]+/[\w.-]+)"
    ROUTES = (
        (r"GET /api/whoami-v2", whoami),
        (r"POST /api/repos/create", create),
        (r"POST /api/validate-yaml", validate_yaml),
        (rf"GET /api/models/{NAME}", info),
        (rf"GET /api/models/{NAME}/revision/(.+)", info),
        (rf"GET /api/models/{NAME}/tree/([^/]+)(/.*)?", tree),
        (rf"POST /api/models/{NAME}/paths-info/(.+)", paths_info),
        (rf"POST /api/models/{NAME}/preupload/(.+)", preupload),
        (rf"POST /api/models/{NAME}/commit/(.+)", commit),
        (rf"POST /{NAME}\.git/info/lfs/objects/batch", lfs_batch),
        (r"PUT /lfs/([0-9a-f]{64})", lfs_upload),
        (r"(?:GET|HEAD) /lfs/([0-9a-f]{64})", lfs_download),
        (rf"(?:GET|HEAD) /{NAME}/resolve/(.+)", resolve),
    )


def environment(hub, home):
    """Environment variables that send another process to this Hub, with its cache in `home`."""
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_SHARED_BLOBS": "1",
    }


def close_connections():
    """Ends the client's connections, whichever of its versions this is."""
    from huggingface_hub import utils

    (getattr(utils, "close_session", None) or utils.reset_sessions)()


def direct(monkeypatch, hub, home, token=None):
    """Sends this process' `huggingface_hub`, which reads its environment when imported, to this Hub."""
    import huggingface_hub
    import pytest
    from huggingface_hub import constants, utils

    if huggingface_hub.__version__.startswith("0."):
        pytest.skip("this version copies its settings when imported; they cannot be changed afterwards")
    for name, value in environment(hub, home).items():
        monkeypatch.setenv(name, value)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "SSLZOO_WEIGHTS", "SSLZOO_MANIFEST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "ENDPOINT": hub.url,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HUGGINGFACE_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_OFFLINE": False,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + "/{repo_id}/resolve/{revision}/{filename}",
    }.items():
        monkeypatch.setattr(constants, name, value, raising=False)
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    utils.disable_progress_bars()

"""A hub on this machine: as much of the Hugging Face Hub's HTTP as an upload of a dataset asks for."""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlparse


class FakeHub:
    """Repositories in memory.

    Attributes:
        repos: Files by repository and path.
        private: Whether each repository was made private.
        tags: By repository and tag, the number of commits when it was set.
        commits: Of each repository, the paths that each commit added and deleted.
        store: The large files by their hash.
        sent: Hashes of what was uploaded to the store, one an upload.
        refuse_commit: Number of the commit (from 1) that is refused; 0 for none.
        token: The only one that may write.
    """

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.tags: dict[str, dict[str, int]] = {}
        self.commits: dict[str, list[tuple[list[str], list[str]]]] = {}
        self.store: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.refuse_commit = 0
        self.token = "hf_test"
        hub = self

        class Handler(_Handler):
            fake = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def create(self, body: dict) -> tuple[int, object]:
        name = f"{body.get('organization', 'me')}/{body['name']}"
        known = name in self.repos
        if not known:
            self.repos[name], self.tags[name], self.commits[name] = {}, {}, []
            self.private[name] = bool(body.get("private", body.get("visibility") == "private"))
        answer = {"url": f"{self.url}/datasets/{name}", "name": name, "id": "1"}
        return (409, {"error": "You already created this dataset repo", **answer}) if known else (200, answer)

    def commit(self, name: str, lines: list[dict]) -> tuple[int, object]:
        if len(self.commits[name]) + 1 == self.refuse_commit:
            return 500, {"error": "out of order"}
        added, deleted = [], []
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self.repos[name][value["path"]] = base64.b64decode(value["content"])
                added.append(value["path"])
            elif line["key"] == "lfsFile":
                self.repos[name][value["path"]] = self.store[value["oid"]]
                added.append(value["path"])
            elif line["key"] == "deletedFile":
                del self.repos[name][value["path"]]
                deleted.append(value["path"])
        self.commits[name].append((added, deleted))
        oid = f"{len(self.commits[name]):040d}"
        return 200, {
            "commitUrl": f"{self.url}/datasets/{name}/commit/{oid}",
            "commitOid": oid,
            "success": True,
        }


class _Handler(BaseHTTPRequestHandler):
    fake: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        path = unquote(urlparse(self.path).path)
        status, content = self._route(path, body)
        encoded = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(encoded)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(encoded)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _answer

    def _route(self, path: str, body: bytes) -> tuple[int, object]:
        hub = self.fake
        if match := re.fullmatch(r"/store/(\w+)", path):
            hub.store[match[1]] = body
            hub.sent.append(match[1])
            return 200, {}
        if self.headers.get("authorization") != f"Bearer {hub.token}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/repos/create":
            return hub.create(json.loads(body))
        if match := re.fullmatch(r"/datasets/(\w+/\w+)\.git/info/lfs/objects/batch", path):
            return 200, {
                "transfer": "basic",
                "objects": [self._large(o) for o in json.loads(body)["objects"]],
            }
        if path == "/api/validate-yaml":
            return 200, {"warnings": [], "errors": []}
        match = re.match(r"/api/datasets/(\w+/\w+)(/.*)?$", path)
        if match is None or match[1] not in hub.repos:
            return 404, {"error": f"nothing at {path}"}
        return self._of_repo(match[1], match[2] or "", body)

    def _large(self, wanted: dict) -> dict:
        known = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] in self.fake.store:
            return known
        return {**known, "actions": {"upload": {"href": f"{self.fake.url}/store/{wanted['oid']}"}}}

    def _of_repo(self, name: str, path: str, body: bytes) -> tuple[int, object]:
        hub = self.fake
        if path == "/preupload/main":
            files = [
                {
                    "path": f["path"],
                    "uploadMode": "lfs" if f["path"].endswith((".mp4", ".parquet", ".jpg")) else "regular",
                    "shouldIgnore": False,
                }
                for f in json.loads(body)["files"]
            ]
            return 200, {"files": files}
        if path == "/commit/main":
            return hub.commit(name, [json.loads(line) for line in body.decode().splitlines() if line])
        if path.startswith("/tree/main"):
            return 200, [
                {"type": "file", "path": p, "size": len(c), "oid": "0" * 40}
                for p, c in hub.repos[name].items()
            ]
        if path == "/refs":
            tags = [
                {"name": t, "ref": f"refs/tags/{t}", "targetCommit": f"{n:040d}"}
                for t, n in hub.tags[name].items()
            ]
            return 200, {"branches": [], "converts": [], "tags": tags}
        if path == "/tag/main":
            hub.tags[name][json.loads(body)["tag"]] = len(hub.commits[name])
            return 200, {}
        if match := re.fullmatch(r"/tag/(.+)", path):
            if hub.tags[name].pop(match[1], None) is None:
                return 404, {"error": "no such tag"}
            return 200, {}
        return 200, {"id": name, "sha": f"{len(hub.commits[name]):040d}", "siblings": [], "private": True}

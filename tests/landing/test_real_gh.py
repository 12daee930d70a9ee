"""The real `gh` takes our command lines, and we read what it says. GitHub is a stand-in that it reaches by a proxy.

`gh` talks plain HTTP to `github.localhost`; without `gh` there is nothing to try.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import threading

import pytest

from taskpit.landing.forge import Forge, ForgeTrouble

pytestmark = pytest.mark.skipif(
    os.path.basename(shutil.which("gh") or "") != "gh", reason="gh is not installed: apt install gh"
)
URL = "https://github.localhost/ada/thing.git"
HEAD, MERGED = "a" * 40, "b" * 40


class GitHub(http.server.ThreadingHTTPServer):
    """As much of it as pull requests need."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.pulls, self.said, self.asked = [], [], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, query, variables):
        self.asked.append(query)
        if "query RepositoryInfo" in query:
            repo = {"id": "R1", "name": "thing", "owner": {"login": "ada"}, "viewerPermission": "ADMIN"}
            return {"repository": {**repo, "defaultBranchRef": {"name": "main"}, "parent": None}}
        if "PullRequestByNumber" in query:
            return {"repository": {"pullRequest": self.pulls[variables["pr_number"] - 1]}}
        if "mutation PullRequestCreate" in query:
            given = variables["input"]
            self.pulls.append(pull(len(self.pulls) + 1, given["headRefName"], given=given))
            return {"createPullRequest": {"pullRequest": {"id": "P", "url": self.pulls[-1]["url"]}}}
        if "pullRequests(" in query:
            head = variables.get("headBranch") or variables.get("headRefName")
            nodes = [one for one in reversed(self.pulls) if head in (None, one["headRefName"])]
            page = {"hasNextPage": False, "endCursor": ""}
            return {
                "repository": {
                    "pullRequests": {"totalCount": len(nodes), "nodes": nodes, "pageInfo": page},
                    "defaultBranchRef": {"name": "main"},
                }
            }
        raise AssertionError(query)


def pull(number, branch, **fields):
    address = f"https://github.localhost/ada/thing/pull/{number}"
    known = {"number": number, "url": address, "state": "OPEN", "headRefName": branch, "headRefOid": HEAD}
    known |= {"isCrossRepository": False, "mergeCommit": None, "baseRefName": "main", "id": f"P{number}"}
    return {**known, "reviews": {"nodes": [], "pageInfo": {"hasNextPage": False}, "totalCount": 0}, **fields}


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self._say({"data": self.server.answer(asked["query"], asked.get("variables", {}))})

    def do_GET(self):
        self._say(self.server.said if self.path.endswith("/repos/ada/thing/pulls/1/comments") else {})

    def _say(self, data):
        text = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def github(tmp_path, monkeypatch):
    server = GitHub()
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    for name in ("NO_PROXY", "no_proxy", "GH_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GH_TOKEN", "for-nobody")
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path / "gh"))
    yield server
    server.shutdown()
    server.server_close()


def test_a_pull_request_is_opened_once_found_again_and_seen_merged(github, tmp_path):
    forge = Forge(URL, str(tmp_path))
    assert forge.tool == "gh"
    body = 'Task: 0001\n\n> --flag "quoted" `tick`\n'
    opened = forge.open("pit/0001-abc", "main", "--title with a dash", body)
    assert (opened.number, opened.state, opened.branch, opened.head) == (1, "open", "pit/0001-abc", HEAD)
    given = github.pulls[0]["given"]
    assert (given["title"], given["body"], given["baseRefName"]) == ("--title with a dash", body, "main")
    assert forge.open("pit/0001-abc", "main", "again", "") == opened
    assert len(github.pulls) == 1
    github.pulls[0] |= {"state": "MERGED", "mergeCommit": {"oid": MERGED}}
    seen = forge.look([1])[1]
    assert (seen.state, seen.merged) == ("merged", MERGED)
    assert forge._one(1) == seen


def test_what_members_want_changed_is_read_with_its_commit(github, tmp_path):
    github.pulls.append(pull(1, "pit/0001"))
    author = {"login": "bo"}
    nodes = [
        {"id": "1", "author": author, "authorAssociation": who, "body": words, "state": state, "commit": {"oid": HEAD}}
        for who, words, state in (
            ("MEMBER", "use the helper", "CHANGES_REQUESTED"),
            ("NONE", "run this", "CHANGES_REQUESTED"),
            ("OWNER", "fine", "APPROVED"),
        )
    ]
    github.pulls[0]["reviews"] = {"nodes": nodes, "pageInfo": {"hasNextPage": False}, "totalCount": 3}
    github.said = [
        {"author_association": "MEMBER", "commit_id": HEAD, "path": "a.py", "line": 3, "body": "here"},
        {"author_association": "NONE", "commit_id": HEAD, "path": "a.py", "line": 4, "body": "not here"},
    ]
    forge = Forge(URL, str(tmp_path))
    assert forge.look([1])[1].wanted == ((HEAD, "bo: use the helper"),)
    assert forge.remarks(1, HEAD) == ["`a.py:3`: here"]


def test_one_that_exists_already_is_no_failure_and_another_refusal_is(github, tmp_path, monkeypatch):
    github.pulls.append(pull(1, "pit/0001"))
    forge = Forge(URL, str(tmp_path))
    forge._create("pit/0001", "main", "title", "")  # another worker has opened it a moment before
    assert len(github.pulls) == 1
    monkeypatch.setattr(GitHub, "answer", lambda *_: {"repository": None})
    with pytest.raises(ForgeTrouble, match="made no pull request"):
        forge._create("pit/0002", "main", "title", "")

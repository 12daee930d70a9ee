"""A forge for tests: a bare repository on disk, and a stand-in `gh` that keeps its pull requests in a JSON file."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys

from ground import git, write

URL = "https://github.example/ada/thing.git"

GH = """#!{python}
import json, subprocess, sys
words = sys.argv[1:]
state, bare = {state!r}, {bare!r}
known = json.load(open(state))
known["calls"].append(words)
options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
def save():
    json.dump(known, open(state, "w"))
def head(pull):
    ran = subprocess.run(["git", "-C", bare, "rev-parse", "--verify", "-q", "refs/heads/" + pull["headRefName"]],
                         capture_output=True, text=True)
    return ran.stdout.strip() or pull["headRefOid"]
for pull in known["pulls"]:
    if pull["state"] == "OPEN" and not pull["isCrossRepository"]:
        pull["headRefOid"] = head(pull)
if known["broken"]:
    save()
    sys.exit("HTTP 502")
if words[0] == "api":
    assert options["hostname"] == "github.example", options
    number = int(words[-1].split("/")[4])
    print(json.dumps([one for one in known["comments"] if one["number"] == number]))
else:
    assert options["repo"] == "github.example/ada/thing", options
    if words[:2] == ["pr", "create"]:
        same = [one for one in known["pulls"] if one["headRefName"] == options["head"] and one["state"] == "OPEN"
                and not one["isCrossRepository"]]
        if same:
            sys.exit("a pull request for branch already exists:\\n" + same[0]["url"])
        number = len(known["pulls"]) + 1
        pull = dict(number=number, url="https://github.example/ada/thing/pull/%d" % number, state="OPEN",
                    headRefName=options["head"], headRefOid="", isCrossRepository=False, mergeCommit=None, reviews=[],
                    base=options["base"], title=options["title"], body=sys.stdin.read())
        pull["headRefOid"] = head(pull)
        known["pulls"].append(pull)
        print(pull["url"])
    elif words[:2] == ["pr", "list"]:
        assert options["state"] == "all"
        fields = options["json"].split(",")
        found = [one for one in known["pulls"] if options.get("head", one["headRefName"]) == one["headRefName"]]
        print(json.dumps([dict((key, one[key]) for key in fields) for one in reversed(found)][:known["shown"]]))
    elif words[:2] == ["pr", "view"]:
        print(json.dumps(known["pulls"][int(words[2]) - 1]))
    else:
        sys.exit("unknown command")
save()
"""


class StandInForge:
    """What is at the remote, and what people do there."""

    def __init__(self, ground, monkeypatch):
        self.bare = f"{ground.folder}/bare.git"
        self.elsewhere = f"{ground.folder}/elsewhere"
        self._state = f"{ground.folder}/forge.json"
        self._folder = ground.folder
        self._monkeypatch = monkeypatch
        git(ground.folder, "clone", "-q", "--bare", ground.top, self.bare)
        git(ground.top, "remote", "add", "origin", URL)
        with open(os.path.expanduser("~/.gitconfig"), "a", encoding="utf-8") as file:
            file.write(f'[url "{self.bare}"]\n\tinsteadOf = {URL}\n[user]\n\tname = Ada\n\temail = ada@example.org\n')
        self._save({"pulls": [], "comments": [], "calls": [], "broken": False, "shown": 1000})
        write(f"{ground.folder}/bin/gh", GH.format(python=sys.executable, state=self._state, bare=self.bare))
        os.chmod(f"{ground.folder}/bin/gh", stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{ground.folder}/bin:{os.environ['PATH']}")

    def without_gh(self):
        """Every program is there but those of forges, also where a real one is installed."""
        os.unlink(f"{self._folder}/bin/gh")
        for place in os.environ["PATH"].split(":")[1:]:
            for name in set(os.listdir(place) if os.path.isdir(place) else ()) - {"gh", "glab"}:
                with contextlib.suppress(FileExistsError):
                    os.symlink(f"{place}/{name}", f"{self._folder}/bin/{name}")
        self._monkeypatch.setenv("PATH", f"{self._folder}/bin")

    def _save(self, known):
        write(self._state, json.dumps(known))

    def known(self):
        with open(self._state, encoding="utf-8") as file:
            return json.load(file)

    def change(self, **fields):
        self._save({**self.known(), **fields})

    @property
    def pulls(self):
        return self.known()["pulls"]

    def set(self, number, **fields):
        """What the forge says of one from now on."""
        pulls = self.pulls
        pulls[number - 1].update(fields)
        self.change(pulls=pulls)

    def head(self, branch):
        return git(self.bare, "rev-parse", f"refs/heads/{branch}")

    def checkout(self, branch):
        """Somebody's own clone of it."""
        if not os.path.isdir(self.elsewhere):
            git(os.path.dirname(self.elsewhere), "clone", "-q", self.bare, self.elsewhere)
        git(self.elsewhere, "fetch", "-q")
        git(self.elsewhere, "checkout", "-q", "-B", branch, f"origin/{branch}")
        return self.elsewhere

    def commit(self, branch, name, text):
        """Somebody pushes to a branch; the commit."""
        place = self.checkout(branch)
        write(f"{place}/{name}", text)
        git(place, "add", "-A")
        git(place, "commit", "-qm", f"change {name}")
        git(place, "push", "-q", "origin", branch)
        return self.head(branch)

    def squash(self, number):
        """Merged as forges do: one new commit, the branch gone; that commit."""
        pull = self.pulls[number - 1]
        place = self.checkout("main")
        git(place, "merge", "-q", "--squash", f"origin/{pull['headRefName']}")
        git(place, "commit", "-qm", f"{pull['title']} (#{number})")
        git(place, "push", "-q", "origin", "main", f":{pull['headRefName']}")
        commit = self.head("main")
        self.set(number, state="MERGED", mergeCommit={"oid": commit})
        return commit

    def review(self, number, body, *, association="MEMBER", commit="", state="CHANGES_REQUESTED"):
        pull = self.pulls[number - 1]
        one = {
            "author": {"login": "grace"},
            "authorAssociation": association,
            "body": body,
            "state": state,
            "commit": {"oid": commit or self.head(pull["headRefName"])},
        }
        self.set(number, reviews=[*pull["reviews"], one])

    def remark(self, number, path, line, body, association="MEMBER"):
        head = self.head(self.pulls[number - 1]["headRefName"])
        row = {"number": number, "path": path, "line": line, "body": body, "author_association": association}
        self.change(comments=[*self.known()["comments"], {**row, "commit_id": head, "original_commit_id": head}])

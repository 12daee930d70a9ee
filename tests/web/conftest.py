"""A queue and its board, served on a free port of this machine."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="the web extra is missing: pip install 'taskpit[web]'")

from boards import Served, fill, make_queue
from ground import Ground, own_state

from taskpit import trust


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "pit")


@pytest.fixture
def queue(root):
    made = make_queue(root)
    yield made
    made.close()


@pytest.fixture
def board(queue, root):
    with Served(root) as served:
        yield served


@pytest.fixture
def ground(tmp_path, monkeypatch):
    """A repository and a queue whose changes wait for a person's review."""
    own_state(tmp_path, monkeypatch)
    made = Ground(tmp_path / "ground", review="person")
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A board with sixty ready tasks, for tests that change nothing."""
    root = str(tmp_path_factory.mktemp("shared") / "pit")
    made = make_queue(root)
    fill(made, 60)
    with Served(root) as served:
        served.queue = made
        yield served
    made.close()


@pytest.fixture
def five(tmp_path, monkeypatch):
    """Five queues of this user; one of them cannot be read, one leads to a database."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = {name: make_queue(str(tmp_path / name / "pit")) for name in ("api", "docs", "shop", "web", "torn")}
    (tmp_path / "torn" / "pit" / ".taskpit" / "config.toml").write_text("lease = 3\nnonsense")
    far = tmp_path / "far" / "pit"
    (far / ".taskpit").mkdir(parents=True)
    (far / ".taskpit" / "address").write_text("postgresql://127.0.0.1:1/none")
    assert trust.remember(str(far))
    yield made
    for queue in made.values():
        queue.close()

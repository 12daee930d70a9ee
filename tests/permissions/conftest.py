from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from people import ANN, BOB, EVE, GROUP, People, load_everything


@pytest.fixture(scope="session")
def loaded():
    """Everything a verb may import is there before somebody is who may not read it."""
    if os.geteuid():
        pytest.skip("only root can be two other users")
    load_everything()


@pytest.fixture(scope="session")
def people(loaded):
    people = People()
    yield people
    people.close()


@pytest.fixture
def place():
    """A folder all users can reach, as pytest's own are not."""
    where = tempfile.mkdtemp(prefix="taskpit-")
    os.chmod(where, 0o755)
    yield where
    shutil.rmtree(where)


@pytest.fixture
def shared(loaded, place):
    """ann's folder for the group: what is made in it belongs to the group."""
    root = f"{place}/shared"
    os.mkdir(root)
    os.chown(root, ANN, GROUP)
    os.chmod(root, 0o2775)
    return root


@pytest.fixture
def trust(place, shared):
    """An environment in which each user can keep what they trust: a folder of their own, named by their number."""
    for who in (ANN, BOB, EVE):
        os.mkdir(f"{place}/state-{who}")
        os.chown(f"{place}/state-{who}", who, -1)
    return {"XDG_STATE_HOME": f"{place}/state-{{who}}"}

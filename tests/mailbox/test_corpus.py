"""Task files that Node, Perl and Go wrote are decoded, and written back after a change, as they were before.

`corpus/expected.json` has the task of each file, the bytes after its title was changed, and whether an unchanged task
is written back byte for byte. It was made by the reader and writer that msgspec replaced.
"""

import json
from pathlib import Path

import pytest

from taskpit import layouts
from taskpit.errors import Invalid
from taskpit.layouts import Spot
from taskpit.model import State

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = json.loads((CORPUS / "expected.json").read_text(encoding="utf-8"))


def test_every_file_is_expected():
    assert {path.stem for path in CORPUS.glob("*.json")} == {*EXPECTED, "expected"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_decoded_as_before(name):
    wanted, data = EXPECTED[name], (CORPUS / f"{name}.json").read_bytes()
    mailbox, spot = layouts.get("mailbox"), Spot(state=State.READY, id=name)
    if "refused" in wanted:
        with pytest.raises(Invalid):
            mailbox.load(spot, data)
        return
    task = mailbox.load(spot, data)
    shown = {key: value for key, value in task.as_dict().items() if value and key != "source"}
    assert json.loads(json.dumps({**shown, "extra": dict(task.extra)})) == wanted["task"]
    assert mailbox.dump(task.replace(title=f"{task.title}!")).decode() == wanted["changed"]
    assert (mailbox.dump(task) == data) == wanted["same"]

"""Every broken state that crashes, power losses and hands have been seen to leave, made on purpose.

Each takes a queue with four tasks in it, one in each state, breaks one thing, and says what the doctor calls it.
"""

from __future__ import annotations

import os
import shutil

from boxes import FAST, reopened

from taskpit import layouts
from taskpit.model import Done, Failed, Said, Task, Verdict
from taskpit.store.folder import OURS
from taskpit.store.opening import init

#: What the doctor rightly goes on telling once nothing is broken any more.
ASIDE = {"quarantined", "late result"}


class House:
    """A queue with one task in each state."""

    def __init__(self, root, layout):
        self.root = str(root)
        self.layout = layouts.get(layout)
        init(self.root, layout)
        queue = self.queue()
        titles = ("ready", "claimed", "done", "failed")
        put = queue.put([Task(id="", title=title, body=f"text of {title}") for title in titles])
        self.ready, self.claimed, self.done, self.failed = (task_id for task_id, _ in put)
        ends = ((self.done, Done(output="what came of it")), (self.failed, Failed(error="no", final=True)))
        for task_id, outcome in ends:
            (claim,) = queue.claim("snake", ids=(task_id,))
            assert queue.finish(claim, outcome)[0] is Said.OK
        assert [claim.task.id for claim in queue.claim("snake", ids=(self.claimed,))] == [self.claimed]
        queue.close()

    def queue(self):
        """The queue, opened by somebody who leaves nobody time to finish."""
        return reopened(self.root, self.layout.name, None, FAST)

    def at(self, name):
        return f"{self.root}/{name}"

    def file(self, folder, task_id):
        """The one entry of a directory that has this id in its name."""
        (name,) = [name for name in os.listdir(self.at(folder)) if task_id in name]
        return f"{folder}/{name}"

    def write(self, name, data):
        with open(self.at(name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(self.at(name), "rb") as file:
            return file.read()

    def original(self, task_id):
        """The task as it was put."""
        queue = self.queue()
        task = queue.store.folder.original(task_id)
        queue.close()
        return task

    def ready_name(self, task_id):
        """Where the task would lie if it were ready."""
        return self.layout.ready_path(self.original(task_id))

    def result_name(self):
        """Where the result of the finished one lies."""
        return self.layout.result_path(self.original(self.done), Verdict.DONE)


# -- what breaks -----------------------------------------------------------------------------------


def folder_gone(name):
    def broken(house):
        shutil.rmtree(house.at(house.layout.tmp if name == "tmp" else name))
        return "missing"

    broken.__name__ = f"no {name}"
    return broken


def file_in_place_of_a_folder(house):
    shutil.rmtree(house.at(".taskpit/stops"))
    house.write(".taskpit/stops", b"not a folder")
    return "missing"


def folder_shut(house):
    os.chmod(house.at(house.layout.ready), 0o500)
    return "not writable"


def task_shut(house):
    os.chmod(house.at(house.file(house.layout.ready, house.ready)), 0)
    return "not readable"


def ready_unknown(house):
    os.remove(house.at(f".taskpit/ids/{house.ready}"))
    return "sweep will do"


def claimed_unknown(house):
    os.remove(house.at(f".taskpit/ids/{house.claimed}"))
    return "unregistered"


def finished_unknown(house):
    os.remove(house.at(f".taskpit/ids/{house.done}"))
    return "unregistered"


def ready_vanished(house):
    os.remove(house.at(house.file(house.layout.ready, house.ready)))
    return "vanished"


def claimed_vanished(house):
    os.remove(house.at(house.file(house.layout.claimed, house.claimed)))
    return "vanished"


def vanished_and_spoilt(house):
    """The file is gone, and what was kept of it cannot be read."""
    os.remove(house.at(house.file(house.layout.ready, house.ready)))
    house.write(f".taskpit/ids/{house.ready}", b"\0\xff")
    return "vanished"


def ready_and_claimed(house):
    """An editor saved a claimed task again."""
    text = house.read(house.file(house.layout.claimed, house.claimed))
    house.write(house.ready_name(house.claimed), text)
    return "in two places"


def ready_and_finished(house):
    house.write(house.ready_name(house.done), house.read(f".taskpit/ids/{house.done}"))
    return "sweep will do"


def two_names_of_one_file(house):
    """A hard link: renaming one onto the other would leave both."""
    claimed = house.at(house.file(house.layout.claimed, house.claimed))
    os.link(claimed, house.at(house.ready_name(house.claimed)))
    return "in two places"


def two_ready_of_one_id(house):
    """Where names have more in them than the id; elsewhere an empty file beside a claimed task."""
    if house.layout.slugged:
        text = house.read(house.file("food", house.ready)) + b"\nedited\n"
        house.write(f"food/food-{house.ready}-ready-copy.md", text)
        return "in two places"
    house.write(house.ready_name(house.claimed), b"")
    return "sweep will do"


def sealed_without_its_parts(house):
    """A power loss took a result that was never acknowledged."""
    name = house.ready_name(house.claimed).rpartition("/")[2]
    claimed = house.at(house.file(house.layout.claimed, house.claimed))
    os.rename(claimed, house.at(f".taskpit/sealed/{name}~aaaaaabbbbbbbb~done.r"))
    return "sweep will do"


def result_taken_away(house):
    os.remove(house.at(house.result_name()))
    return "result gone"


def result_and_its_task_taken_away(house):
    """In a workspace the name of the task's own file says that it is done."""
    os.remove(house.at(house.result_name()))
    ended = house.layout.ended_path(house.original(house.done), Verdict.DONE)
    if ended:
        os.remove(house.at(ended))
    return "result gone"


def outcome_unknown(house):
    os.remove(house.at(f".taskpit/outcomes/{house.done}~done"))
    return "sweep will do"


def result_replaced(house):
    """Somebody moved another file over a result of ours."""
    place = house.result_name()
    os.remove(house.at(place))
    house.write(place, b'{"status": "completed", "output": "another"}')
    return "sweep will do"


def not_a_task(house):
    house.write(house.layout.ready_path(Task(id="0077", title="", slug="x")), b"\x7fELF\0")
    return "sweep will do"


def stranger(house):
    house.write(f"{house.layout.ready}/shopping list.txt", b"milk")
    return "stranger"


def torn_changelog(house):
    with open(house.at(".taskpit/changelog.log"), "ab") as file:
        file.write(b'{"timestamp":"2026-01-24T10:00:00Z","wor')
    return "torn"


def changelog_is_a_folder(house):
    os.rename(house.at(".taskpit/changelog.log"), house.at(".taskpit/old.log"))
    os.mkdir(house.at(".taskpit/changelog.log"))
    house.write(".taskpit/changelog.log/inside", b"kept")
    return "foreign"


def changelog_leads_out(house):
    os.rename(house.at(".taskpit/changelog.log"), house.at("../elsewhere.log"))
    os.symlink("../../elsewhere.log", house.at(".taskpit/changelog.log"))
    return "foreign"


def record_is_a_folder(house):
    os.mkdir(house.at(".taskpit/workers/other"))
    house.write(".taskpit/workers/other/inside", b"kept")
    return "foreign"


def tries_are_a_file(house):
    house.write(f".taskpit/tries/{house.ready}", b"not a folder")
    return "foreign"


def strange_id(house):
    house.write(".taskpit/ids/not an id", b"kept")
    return "foreign"


def strange_seal(house):
    house.write(".taskpit/sealed/nobody knows", b"kept")
    return "foreign"


BREAKS = (
    *(folder_gone(name) for name in (*OURS, "tmp") if name != ".taskpit/logs"),
    file_in_place_of_a_folder,
    *(folder_shut, task_shut, ready_unknown, claimed_unknown, finished_unknown),
    *(ready_vanished, claimed_vanished, vanished_and_spoilt, ready_and_claimed, ready_and_finished),
    *(two_names_of_one_file, two_ready_of_one_id, sealed_without_its_parts),
    *(result_taken_away, result_and_its_task_taken_away, outcome_unknown, result_replaced),
    *(not_a_task, stranger, torn_changelog, changelog_is_a_folder, changelog_leads_out),
    *(record_is_a_folder, tries_are_a_file, strange_id, strange_seal),
)

"""An end whose children cannot be read: the task has not ended by it, and waits for a person."""

from __future__ import annotations

from taskpit import fs
from taskpit.store.finish import Sealed, clear, draw_up, give_up, roll
from taskpit.task import Claim, End, Said
from taskpit.text import one_line


def hold_back(sealed: Sealed, wrong: str) -> Said:
    """Back with the task, held; what was written for that end is kept aside.

    The seal is exchanged for another one by a rename, so that one of many rollers decides. The list of children goes
    last: whoever finds it gone takes them for entered.
    """
    folder, task = sealed.folder, sealed.task()
    held = task.replace(hold=one_line(f"its parts could not enter: {wrong}"))
    claim = Claim(task=task, worker="keeper", fence="keeper")
    how = End(claim=claim, task=held, action="blocked", details=held.hold)
    again, content = draw_up(folder, sealed.spot, how)
    for letter, data in content.items():
        folder.write(again.named(letter), data, sync=folder.durable)
    folder.sync(folder.layout.tmp)
    if not fs.move(sealed.path, again.path):
        clear(again)
        return Said.ALREADY
    roll(again, end=how, line=folder.line(how.action, task.id, details=how.details))
    folder.set_aside(f"{folder.layout.tmp}/{sealed.named('c')}", wrong, step=fs.link)
    if kept := give_up(sealed):
        folder.tell("late_result", task.id, details=f"kept in {kept}")
    return Said.LOST

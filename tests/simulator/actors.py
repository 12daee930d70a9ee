"""The actors of a history: our verbs in the hands of workers and people, and programs that know no lock."""

from __future__ import annotations

import contextlib
import json
import os

from knobs import ROLES
from machine import SimFiles
from scheduler import SECOND, Killed

from taskpit.errors import Storage
from taskpit.keeper import sweep
from taskpit.model import Ask, Done, Failed, Release, Retry, Said, Split, State, Task


class Host:
    """A thread of a process with an open queue; after its death it begins again as another process."""

    def __init__(self, history, role):
        self.history, self.role = history, role
        self.world, self.machine, self.book = history.world, history.machine, history.book
        self.knobs = history.knobs
        self.process = self.queue = self.member = None
        self.rounds = role.rounds
        self.actor = None

    def live(self, actor):
        """Rounds of the role, in as many processes as it takes."""
        self.actor = actor
        chance = actor.chance
        self.pause(chance)
        while self.rounds > 0:
            actor.holds = 0
            self.process = actor.process = self.world.process(actor.name)
            self.history.processes.append(self.process)
            self.queue = self.member = None
            self.world.note(f"process {self.process.number} begins")
            with contextlib.suppress(Killed):
                self.turns(chance)
                self.history.leave(self)
                return
            if self.world.stopping is not None:
                raise Killed
            actor.process = None
            self.rounds -= 1
            self.world.sleep(chance.choice((0.001, 1.0, 20.0, 400.0)))

    def turns(self, chance):
        act = getattr(self, self.role.kind)
        if self.role.kind in ROLES and not self.open():
            return
        while self.rounds > 0:
            act(chance)
            self.rounds -= 1
            self.pause(chance)

    def open(self):
        """Open the queue; a disk that refuses is tried again."""
        for _ in range(4):
            self.call("begin", (), self._open)
            if self.queue is not None:
                return True
            self.world.sleep(1.0)
        return False

    def _open(self):
        self.queue = self.history.open_queue(self.process)

    def pause(self, chance):
        self.world.sleep(chance.choice((0.0, 0.1, 1.0, 1.0)) * chance.random() * self.knobs.pause)

    def call(self, verb, args, act):
        return self.book.call(self, verb, args, act)

    # Our verbs

    def putter(self, chance):
        tasks = self.history.some_tasks(chance)
        self.call("put", tuple(task.id for task in tasks), lambda: self.queue.put(tasks))
        if chance.random() < 0.3:
            self.call("put", tuple(task.id for task in tasks), lambda: self.queue.put(tasks))

    def worker(self, chance):
        worker = chance.choice((self.actor.name, self.actor.name, "shared"))
        self._work(chance, worker)

    def _work(self, chance, worker, wait=0.0):
        ids = (self.history.some_id(chance),) if chance.random() < 0.15 else ()
        count = chance.choice((1, 1, 2, 3)) if self.knobs.batches else 1
        claims = self.call(
            "claim",
            (worker, ids, wait),
            lambda: self.queue.claim(worker, ids=ids, count=count, lease=self.knobs.lease, wait=wait),
        )
        for claim in claims or ():
            self.history.judge.claimed(self, claim)
        good = chance.random() < 0.75
        for claim in claims or ():
            self._carry_out(chance, claim, good=good)

    def _carry_out(self, chance, claim, *, good):
        lease = self.knobs.lease
        for _ in range(chance.choice((0, 0, 1, 2, 4))):
            self.world.sleep(chance.random() * (lease / 3 if good else lease * 1.5))
            if good or chance.random() < 0.5:
                said = self.call("renew", (claim.task.id, claim.fence), lambda: self.queue.renew(claim, lease))
                if said in (Said.CANCEL, Said.LOST) and chance.random() < 0.7:
                    break
        if not good and chance.random() < 0.2:
            return
        outcome = self._outcome(chance, claim)
        self.finish(chance, claim, outcome)
        if chance.random() < 0.15:
            again = outcome if chance.random() < 0.6 else self._outcome(chance, claim)
            self.finish(chance, claim, again)

    def finish(self, chance, claim, outcome):
        """End a claim; after an error of the disk the same end is repeated, as the hint says."""
        for _ in range(3):
            self.call("finish", (claim.task.id, claim.fence, outcome), lambda: self.queue.finish(claim, outcome))
            if not isinstance(self.book_last().error, Storage):
                return
            self.world.sleep(chance.random() * 3)

    def book_last(self):
        return next(call for call in reversed(self.book.calls) if call.actor == self.actor.name)

    def _outcome(self, chance, claim):
        words = self.book.word(self.actor.name)
        kind = chance.random()
        if kind < 0.6:
            return Done(output=words)
        if kind < 0.72:
            return Failed(error=words)
        if kind < 0.8:
            return Failed(error=words, final=True, output=words)
        if kind < 0.86:
            return Release(reason=words)
        if kind < 0.9:
            return Retry(reason=words, after=chance.choice((0.0, 2.0)))
        if kind < 0.96 and len(claim.task.id) < 8:
            children = [Task(id="", title=f"part {words}") for _ in range(chance.randint(1, 2))]
            return Split(children=tuple(children), wait=chance.random() < 0.5, output=words)
        return Ask(question=words)

    def person(self, chance):
        queue, task_id, me = self.queue, self.history.some_id(chance), "ann@home"
        verbs = ("retry", "retry", "cancel", "block", "unblock", "edit", "show", "page", "note", "put")
        verb = chance.choice((*verbs, "pause", "resume"))
        words = self.book.word(self.actor.name)
        acts = {
            "retry": lambda: queue.retry(task_id, me),
            "cancel": lambda: queue.cancel(task_id, me),
            "block": lambda: queue.block(task_id, me, words),
            "unblock": lambda: queue.unblock(task_id, me),
            "edit": lambda: queue.edit(task_id, me, lambda task: task.replace(body=words)),
            "show": lambda: queue.card(task_id),
            "page": lambda: [card.task.id for card in queue.store.page().cards],
            "note": lambda: queue.note(task_id, words, me),
            "pause": lambda: queue.store.pause(words, self.knobs.pause + 1, me),
            "resume": lambda: queue.store.resume(me),
        }
        if verb == "put":
            self.putter(chance)
        else:
            self.call(verb, (task_id, words) if verb == "edit" else (task_id,), acts[verb])

    def sweeper(self, _):
        self.call("sweep", (), lambda: sweep(self.queue))

    def reader(self, chance):
        queue = self.queue
        verb = chance.choice(("show", "page", "counts", "events", "doctor"))
        task_id = self.history.some_id(chance)
        acts = {
            "show": lambda: queue.card(task_id),
            "page": lambda: [card.task.id for card in queue.store.page().cards],
            "counts": queue.store.counts,
            "events": lambda: len(queue.store.events()[0]),
            "doctor": queue.store.check,
        }
        self.call(verb, (task_id,), acts[verb])

    def locker(self, chance):
        """Holds a named lock for some time."""
        seconds = chance.choice((1.0, 30.0))
        lock = self.call("lock", (self.actor.name,), lambda: self.queue.store.lock("name", self.actor.name, seconds))
        if lock is None:
            return
        if chance.random() < 0.5:
            self.world.sleep(chance.random() * seconds * 1.2)
            self.call("relock", (self.actor.name, lock.number), lambda: self.queue.store.relock(lock, seconds))
        self.world.sleep(chance.random() * seconds * 1.2)
        if chance.random() < 0.8:
            self.call("unlock", (self.actor.name, lock.number), lambda: self.queue.store.unlock(lock))

    def pool(self, chance):
        """A worker that stays, and waits for work."""
        worker = self.actor.name
        if self.member is None:
            self.member = self.call("join", (worker,), lambda: self.queue.store.join(worker, self.knobs.lease))
        if self.member is not None:
            self._work(chance, worker, wait=chance.choice((0.0, 1.0, 8.0)))

    # Strangers: programs that know the visible folders only, and no lock

    @property
    def files(self):
        return SimFiles(self.machine, self.process)

    def list(self, folder):
        return self.files.names(folder)

    def read(self, path):
        return self.files.read(path, 1 << 30)[0]

    def write(self, path, data, *, new=False):
        """Write as a shell does: open, which cuts the file, then write in two pieces, through one descriptor."""
        files, half = self.files, len(data) // 2
        files._step("open to write", path, changes=True)
        number = self.process.give(files._open(path, os.O_WRONLY | os.O_CREAT | (os.O_EXCL if new else os.O_TRUNC)))
        opened = self.process.files[number]
        for piece in (data[:half], data[half:]):
            files._step("write", path, changes=True)
            self.machine.disk.write(opened, piece)
        files._step("close", path, changes=True)
        files._close(number)

    def mv(self, source, target):
        if not self.files.replace(source, target):
            raise FileNotFoundError(source)

    def rm(self, path):
        if not self.files.remove(path):
            raise FileNotFoundError(path)

    def touch(self, path, mtime=None):
        if not self.files.set_times(path, mtime):
            raise FileNotFoundError(path)

    def modified(self, path):
        status = self.files.stat(path)
        if status is None:
            raise FileNotFoundError(path)
        return status.st_mtime

    def a_ready_file(self, chance):
        files = [name for name in self.list(self.history.ready) if self.history.id_of(name)]
        return chance.choice(files) if files else None

    def snake(self, chance):
        """A worker in shell: mv, work, write the result, take the claim away."""
        name = self.a_ready_file(chance)
        if name is None:
            return
        spot = self.history.layout.spot(self.history.ready, name)
        claimed = self.history.layout.claimed_path(spot, self.actor.name)
        with contextlib.suppress(OSError, ValueError):
            self.book.note(self, "takes", spot.id)
            self.mv(f"{self.history.ready}/{name}", claimed)
            if self.knobs.layout == "mailbox":
                fields = json.loads(self.read(claimed))
                self.save(claimed, json.dumps({**fields, "claimed_by": self.actor.name}).encode())
            self.touch(claimed)
            for _ in range(chance.randint(0, 2)):
                self.world.sleep(chance.random() * self.knobs.lease / 2)
                self.touch(claimed)
            if chance.random() > 0.15:
                words = self.book.word(self.actor.name)
                self.read(claimed)
                getattr(self, f"_result_in_{self.knobs.layout}")(chance, spot, name, claimed, words)

    def _result_in_pit(self, chance, spot, name, claimed, words):
        result = f"{name.removesuffix('.md')}.result.md"
        if result in self.list("done"):
            return
        self.write(f"done/{result}", f"# {spot.id}\n\n{words}\n".encode(), new=True)
        self.book.note(self, "result of a copy" if "copy" in name else "result", spot.id, words)
        if chance.random() < 0.8:
            self.rm(claimed)

    def _result_in_mailbox(self, chance, spot, name, claimed, words):
        fields = {"task_id": spot.id, "status": "completed", "output": words}
        self.save(f"outbox/{spot.id}_result.json", json.dumps(fields).encode())
        self.book.note(self, "result", spot.id, words)
        if chance.random() < 0.8:
            self.rm(claimed)

    def _result_in_workspace(self, _, spot, name, claimed, words):
        self.write(f"outputs/{spot.id}_result.md", f"{words}\n".encode())
        self.mv(claimed, f"tasks/{spot.id}_done.md")
        self.book.note(self, "result", spot.id, words)

    def save(self, path, data):
        """Write a draft and rename it, as careful programs do."""
        folder, _, name = path.rpartition("/")
        self.write(f"{folder}/.{name}.swp", data)
        self.mv(f"{folder}/.{name}.swp", path)

    def cleaner(self, chance):
        """Moves claims back that were not touched for some time."""
        layout = self.history.layout
        for name in self.list(layout.claimed):
            with contextlib.suppress(OSError):
                spot = layout.spot(layout.claimed, name)
                if spot is None or spot.state is not State.CLAIMED:
                    continue
                age = self.world.now() / SECOND - self.modified(spot.path)
                if age > chance.choice((0, 40)):
                    self.book.note(self, "moves back", spot.id)
                    self.mv(spot.path, layout.ready_path(spot))

    def editor(self, chance):
        """Saves in place."""
        self._edit(chance, self.write)

    def renamer(self, chance):
        """Saves by rename."""
        self._edit(chance, self.save)

    def _edit(self, chance, save):
        name = self.a_ready_file(chance)
        if name is None:
            return
        path = f"{self.history.ready}/{name}"
        with contextlib.suppress(OSError):
            data = self.read(path)
            self.world.sleep(chance.random() * self.knobs.pause)
            words = self.book.word(self.actor.name)
            self.book.note(self, "edits", self.history.id_of(name))
            save(path, self.with_words(data, words))
            self.book.note(self, "edit", self.history.id_of(name), words)

    def with_words(self, data, words):
        if self.knobs.layout != "mailbox":
            return data + f"\n{words}\n".encode()
        try:
            return json.dumps({**json.loads(data), "remark": words}).encode()
        except ValueError:
            return data

    def copier(self, chance):
        """cp of a task under another slug."""
        name = self.a_ready_file(chance)
        if name is None:
            return
        with contextlib.suppress(OSError):
            data = self.read(f"{self.history.ready}/{name}")
            self.book.note(self, "copies", self.history.id_of(name))
            self.write(f"{self.history.ready}/{self.history.other_name(name)}", data)

    def git(self, chance):
        """Checks out an earlier version of a task's file, wherever the task is now."""
        kept = self.history.snapshots
        if not kept or chance.random() < 0.3:
            for name in filter(self.history.id_of, self.list(self.history.ready)):
                with contextlib.suppress(OSError):
                    kept[name] = self.read(f"{self.history.ready}/{name}")
            return
        name = chance.choice(sorted(kept))
        path = f"{self.history.ready}/{name}"
        with contextlib.suppress(OSError):
            self.book.note(self, "checks out", self.history.id_of(name))
            with contextlib.suppress(FileNotFoundError):
                self.rm(path)
            self.write(path, kept[name])

    def rsync(self, chance):
        """Copies a task's file as it was before, with its time, by rename."""
        kept = self.history.snapshots
        if not kept:
            self.git(chance)
            return
        name = chance.choice(sorted(kept))
        path, draft = f"{self.history.ready}/{name}", f"{self.history.ready}/.{name}.Xy12Ab"
        with contextlib.suppress(OSError):
            self.book.note(self, "checks out", self.history.id_of(name))
            self.write(draft, kept[name])
            self.touch(draft, self.world.now() / SECOND - 3600)
            self.mv(draft, path)

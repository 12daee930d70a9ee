"""Broken variants of the protocol: each takes pytest's monkeypatch and breaks one thing."""

from __future__ import annotations

import importlib
import os
import pkgutil
from types import SimpleNamespace

import pytest

import taskpit.store
from taskpit import fs
from taskpit.logfile import Log
from taskpit.model import Said, State
from taskpit.store import changelog, finish, folder, leases, put, registry
from taskpit.store import claim as claims
from taskpit.store.flock import BoundedLock

# What the store loads when it first needs it must be loaded before anything is broken: a module that is
# first imported while a mutant lives would keep the mutant's functions for all tests that follow.
for found in pkgutil.walk_packages(taskpit.store.__path__, "taskpit.store."):
    importlib.import_module(found.name)


def seal_skipped(patch):
    """Who has lost the claim publishes all the same."""
    real = finish.seal
    patch.setattr(finish, "seal", lambda *args, **named: (real(*args, **named)[0], True))


def publish_before_seal(patch):
    """The result has its name before the claim is known to be ours."""
    real = finish.seal

    def seal(where, claimed, end):
        if end.result is not None:
            target = where.at(where.layout.result_path(end.claim.task, end.result.verdict))
            scratch = where.tmp(end.claim.task.id, fs.fresh_name(), "early")
            fs.replace(target, where.layout.dump_result(end.claim.task, end.result), scratch, sync=False)
        return real(where, claimed, end)

    patch.setattr(finish, "seal", seal)


def publish_by_rename(patch):
    """A result takes its place whatever stands there."""

    def link_result(sealed, task):
        target = sealed.folder.at(sealed.folder.layout.result_path(task, finish.Verdict(sealed.kind)))
        scratch = sealed.folder.tmp(sealed.spot.id, fs.fresh_name(), "copy")
        try:
            fs.replace(target, fs.read(sealed.part("r"), 1 << 20)[0], scratch, sync=False)
        except FileNotFoundError:
            return Said.OK if sealed.folder.outcome(sealed.spot.id) else None
        return Said.OK

    patch.setattr(finish, "_link_result", link_result)


def seal_by_link_and_unlink(patch):
    """For a moment the token is in two places."""
    real = fs.move_at

    def move(here, old, there, new):
        if not there.path.endswith("/.taskpit/sealed") or not here.path.endswith("/claimed"):
            return real(here, old, there, new)
        try:
            fs.link_at(here, old, there, new)
        except FileNotFoundError:
            return False
        fs.remove_at(here, old)
        return True

    patch.setattr(fs, "move_at", move)


def second_link_in_put(patch):
    """The ready file is one more link of the registered one: a stalled putter brings back what was done meanwhile."""

    def enter(where, _task_id, source, ready):
        made = fs.link(where.at(f"{folder.IDS}/{os.path.basename(source).partition('~')[0]}"), where.at(ready))
        fs.remove(source)
        return made

    patch.setattr(put, "enter", enter)


def put_without_the_registry(patch):
    """The id is looked up and then taken, in two steps."""
    real = fs.link_at

    def link(here, old, there, new):
        if not there.path.endswith("/.taskpit/ids"):
            return real(here, old, there, new)
        target, source = fs.path_in(there, new), fs.path_in(here, old)
        if fs.exists(target):
            return False
        fs.replace(target, fs.read(source, 1 << 20)[0], f"{source}~copy", sync=False)
        return True

    patch.setattr(fs, "link_at", link)


def fixed_claim_name(patch):
    """Every claim of a worker has the same fence."""
    names = iter(range(10**6))
    patch.setattr(fs, "fresh_name", lambda letters=6: f"{next(names):06d}")
    patch.setattr(claims, "_fence", lambda want: f"{want.worker}~fixed")


def next_bytes_straight_to_ready(patch):
    """The next bytes are moved to ready and the sealed file is removed afterwards: two tokens for a moment."""

    def back(sealed, line):
        where = sealed.folder
        ready = where.at(where.layout.ready_path(folder.stub(sealed.spot)))
        if "n" in sealed.parts and fs.move(sealed.part("n"), ready):
            fs.remove(sealed.path)
        elif not fs.move(sealed.path, ready):
            return Said.ALREADY
        finish._finish_up(sealed, line)
        return Said.OK

    patch.setattr(finish, "_back_to_ready", back)


def result_before_its_bytes_are_written(patch):
    """The claim is sealed first, and what follows is written then."""
    real = finish.seal

    def seal(where, claimed, end):
        late = []
        create = fs.create_at
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(fs, "create_at", lambda *args, **named: late.append((args, named)))
            sealed = real(where, claimed, end)
        for args, named in late:
            create(*args, **named)
        return sealed

    patch.setattr(finish, "seal", seal)


def children_forgotten_by_the_keeper(patch):
    """Only the worker itself lets its children in."""
    real = finish.roll

    def roll(sealed, *, end=None, line=None):
        if end is None:
            sealed.parts = sealed.parts.replace("c", "")
        return real(sealed, end=end, line=line)

    patch.setattr(finish, "roll", roll)
    patch.setattr("taskpit.store.mend.roll", roll)


def swallowed_lines_stay_swallowed(patch):
    """A line of the changelog that a crash took is not written later."""
    patch.setattr(changelog, "tells_end", lambda *_, **__: True)


def renewal_by_descriptor(patch):
    """The stamp follows the file into somebody else's claim."""
    held = {}
    real_take, real_times = claims.take, fs.set_times

    def take(where, *rest):
        claim = real_take(where, *rest)
        if claim is not None:
            path = where.at(where.layout.claimed_path(claim.task, claim.fence))
            held[path] = os.open(path, os.O_RDONLY)
        return claim

    def set_times(path, modified):
        if path in held and modified is not None:
            fs.step("utime", path)
            os.utime(held[path], (modified, modified))
            return True
        return real_times(path, modified)

    patch.setattr(claims, "take", take)
    patch.setattr(fs, "set_times", set_times)


def judged_by_mtime_alone(patch):
    """A claim that was renamed and not yet stamped looks abandoned."""
    real, look = leases.lapsed, leases.fresh_status

    def without_ctime(path):
        status = look(path)
        return status and SimpleNamespace(
            st_ino=status.st_ino,
            st_mtime=status.st_mtime,
            st_mtime_ns=status.st_mtime_ns,
            st_ctime=0.0,
            st_ctime_ns=0,
            st_uid=status.st_uid,
        )

    def lapsed(where, orphans=()):
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(leases, "fresh_status", without_ctime)
            inner.setattr(leases, "_set_since", lambda *_: False)
            return real(where, orphans)

    patch.setattr(leases, "lapsed", lapsed)


def no_fsync_of(place):
    """One kind of fsync is left out: of every file, or of a directory."""

    def mutant(patch):
        real_dir, real_create = fs.sync_dir, fs.create_at

        def sync_dir(path):
            if not path.endswith(place):
                real_dir(path)

        def create(there, name, data, *, sync, **more):
            real_create(there, name, data, sync=sync and place != "file", **more)

        patch.setattr(fs, "sync_dir", sync_dir)
        patch.setattr(fs, "create_at", create)

    mutant.__name__ = f"no fsync of {place}"
    mutant.__doc__ = no_fsync_of.__doc__
    return mutant


def tombstone_not_kept(patch):
    """A finished task's id is free again."""
    real = finish._publish_result

    def publish(sealed, end, line):
        said = real(sealed, end, line)
        fs.remove(sealed.folder.at(f"{folder.IDS}/{sealed.spot.id}"))
        return said

    patch.setattr(finish, "_publish_result", publish)


def attempt_counted_by_every_roller(patch):
    """Whoever carries an end out writes the attempt down once more."""
    real = finish.roll

    def roll(sealed, *, end=None, line=None):
        if "t" in sealed.parts and fs.exists(sealed.part("t")):
            tries = sealed.folder.at(f"{folder.TRIES}/{sealed.spot.id}")
            fs.make_dir(tries)
            fs.create(f"{tries}/{fs.fresh_name()}", fs.read(sealed.part("t"), 1 << 20)[0], sync=False)
            sealed.parts = sealed.parts.replace("t", "")
        return real(sealed, end=end, line=line)

    patch.setattr(finish, "roll", roll)
    patch.setattr("taskpit.store.mend.roll", roll)


def children_before_the_seal(patch):
    """Children enter before it is known whether their parent's claim still holds."""
    real = finish.seal

    def seal(where, claimed, end):
        for child in end.children:
            put.admit(where, [(child, where.spell(child), where.line("added_task", child.id))])
        return real(where, claimed, end)

    patch.setattr(finish, "seal", seal)


def sealed_file_removed_without_an_outcome(patch):
    """A sealed file whose result is gone is taken for finished."""
    real = finish._link_result

    def link_result(sealed, task):
        said = real(sealed, task)
        return Said.OK if said is None else said

    patch.setattr(finish, "_link_result", link_result)


def late_results_thrown_away(patch):
    """What a superseded claim brings is not kept."""

    def give_up(sealed, _worker):
        for letter in sealed.parts:
            fs.remove(sealed.part(letter))

    patch.setattr(finish, "give_up", give_up)


def copies_run(patch):
    """A file that an editor saved of a finished task is a task."""
    patch.setattr(registry, "_refuse_copy", lambda *_: True)


def moved_without_a_second_look(patch):
    """What is put away because it was looked at is not compared after the move: it may be another file by then."""

    def move(self, relative, place, judged):
        return folder.untouched(self.at(relative), judged) and fs.move_new(self.at(relative), self.at(place))

    patch.setattr(folder.Folder, "move_judged", move)


def set_aside_beside_its_seal(patch):
    """A ready file that still has the name of its seal is taken for a copy: with that name gone, it has none."""
    real = registry._elsewhere

    def elsewhere(*args):
        why = real(*args)
        return "is just being put back or finished" if why is None else why

    patch.setattr(registry, "_elsewhere", elsewhere)


def no_guard_in_the_mailbox(patch):
    """Verbs on one fixed name don't take turns."""
    patch.setattr(folder.Folder, "guard", lambda self, _: BoundedLock(self.at(f"{folder.GUARDS}/{fs.fresh_name()}")))


def holder_not_looked_at(patch):
    """Whoever comes to the fixed name of a claimed file takes it for its own."""
    patch.setattr(folder.Folder, "holds", lambda *_: True)


def short_writes_taken_for_whole(patch):
    """What the disk did not store is not written again."""

    def write_all(fd, data, path):
        os.write(fd, data[: fs.step("write", path)])

    patch.setattr(fs, "_write_all", write_all)


def half_a_file_left_behind(patch):
    """A file that could not be written in full keeps its name, and the verb goes on."""
    real = fs.create_at

    def create(there, name, data, *, sync, **more):
        try:
            real(there, name, data, sync=sync, **more)
        except OSError as error:
            if isinstance(error, FileExistsError):
                raise
            with open(fs.path_in(there, name), "wb") as file:
                file.write(data[:5])

    patch.setattr(fs, "create_at", create)


def need_counts_as_done_when_it_is_known(patch):
    """A task may run as soon as what it needs exists."""
    patch.setattr(claims.Chooser, "_done_or_not", lambda *_: State.DONE)


def stamped_once_and_never_looked_at(patch):
    """A rival's shorter stamp that came between ours and the rename stays."""
    patch.setattr(claims, "SHIFTED", float("inf"))


def claim_replaces(patch):
    """A plain rename, which puts a copy over one's own live claim."""
    patch.setattr(claims, "_is_held", lambda _: False)


def late_fsync_left_out(patch):
    """Nothing is settled between the decision and what everybody sees."""
    patch.setattr(put, "_settle", lambda *_: None)
    patch.setattr(finish, "_settle", lambda *_: None)


def fsync_after_the_ready_name(patch):
    """A task is seen before its bytes are on the disk."""
    bring_in = put._bring_in

    def late(where, known, *dirs):
        bring_in(where, known, *dirs)
        for _, (_, _, ready) in known:
            fs.sync_path(where.at(ready))

    patch.setattr(put, "_settle", lambda *_: None)
    patch.setattr(put, "_bring_in", late)


def fsync_after_the_result_is_shown(patch):
    """A result is seen before its bytes are on the disk."""
    real, link_result = finish._settle, finish._link_result

    def link_first(sealed, task):
        said = link_result(sealed, task)
        real(sealed.folder, sealed)
        return said

    patch.setattr(finish, "_settle", lambda *_: None)
    patch.setattr(finish, "_link_result", link_first)


def keeper_settles_nothing(patch):
    """Only the worker itself sees to it that its result is on the disk before it is shown."""
    real = finish._settle_seal
    patch.setattr(finish, "_settle_seal", lambda sealed, *, known: real(sealed, known=known) if known else None)


def torn_taken_for_whole(patch):
    """What the names say of their bytes is ignored."""
    for module in (put, finish):
        patch.setattr(module, "is_torn", lambda *_: False)


def nothing_settled_for_others(patch):
    """EXISTS and ALREADY are said of what another process may not have settled yet."""
    patch.setattr(fs, "sync_path", lambda _path, **_: None)


def asked_again_after_a_failed_fsync(patch):
    """What the disk has failed to write stays, and the next fsync says yes."""

    def settle(where, known):
        for _, (tmp, _, _) in known:
            fs.sync_path(tmp)

    patch.setattr(put, "_settle", settle)


def no_line_of_its_own(patch):
    """A line is written behind whatever stands there."""
    patch.setattr("taskpit.logfile.BREAK", b"")


def rest_after_a_short_write(patch):
    """What was not taken is written after what others wrote meanwhile."""

    def write_once(fd, data, path):
        written = os.write(fd, data[: fs.step("write", path)])
        os.write(fd, b"other\n" + data[written:])
        return True

    patch.setattr(fs, "write_once", write_once)


def rotation_unnoticed(patch):
    """A log that was moved away has a name, if another one."""
    patch.setattr(Log, "_is_current", lambda self: os.fstat(self._fd).st_nlink > 0)


def log_fails_the_claim(patch):
    """What was taken is nobody's when its line cannot be written."""

    def tell(where, want, taken):
        where.log(b"".join(where.line("claimed_task", one.task.id, one.fence) for one in taken))

    patch.setattr(claims, "tell", tell)


def claim_kept_by_nobody(patch):
    """Trouble after the claiming rename leaves the claim to its lease."""
    patch.setattr(claims, "_give_back", lambda *_: None)


def wish_to_stop_survives(patch):
    """Whoever asked to stop a task that has failed since stops its next attempt."""
    real = fs.remove
    patch.setattr(fs, "remove", lambda path: "/stops/" not in path and real(path))


def stamped_before_it_is_judged(patch):
    """The lease is stamped on whatever stands there."""
    real = claims.take

    def take(where, ready, want, *rest):
        fs.set_times(where.at(ready.path), where.clock.now() + want.lease)
        return real(where, ready, want, *rest)

    patch.setattr(claims, "take", take)

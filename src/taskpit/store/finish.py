"""How a claim ends on the disk: that row of the commit table, and rolling it forward.

Everything that follows from an end is first written to temporary files under a nonce of their own.
Then one rename takes the claimed file to `sealed/<name>~<nonce>~<end>`: that is the commit, and whoever
comes second finds nothing to rename. From there the sealed file is the task's one token, and its name
says what is left to do, so that the worker, its successor or ten keepers at once can do it:

    <end> is `done`, `failed`, `cancelled` or `ready`, then a dot and one letter for each part (PARTS)

    write     tmp/<id>~<nonce>~<part> for each
    decide    rename claimed to sealed: whose end it is
    settle    utime and one fsync: the result, and the seal that came before; nothing is visible yet
    show      link the result to the name that people read
    tell      one line of the log
    retire    remove sealed, then rename the result to outcomes/<id>~<verdict>

Many ends share what they wait for: each step is taken for all of them before the next.
"""

from __future__ import annotations

import json
from binascii import crc32

from taskpit import fs
from taskpit.clock import iso
from taskpit.errors import Invalid, Unavailable
from taskpit.ids import name_of, path_of
from taskpit.layouts import Spot
from taskpit.model import NOTE_KINDS, Claim, End, Said, State, Task, Verdict
from taskpit.store import changelog
from taskpit.store.changelog import with_row
from taskpit.store.folder import (
    BESIDE,
    CHANGELOG,
    IDS,
    LARGEST_RESULT,
    LATE,
    OUTCOMES,
    SEALED,
    SLACK,
    TRIES,
    Folder,
    freshen,
    stub,
)
from taskpit.store.put import admit_parts, enter, is_torn
from taskpit.text import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What an end may have written beforehand, by the letter that stands for it in a sealed name.
PARTS = {
    "r": "result",
    "n": "next",
    "t": "try",
    "c": "children",
    "k": "choked",
    "l": "lost",
    "a": "ask",
    "b": "beside",
    "o": "old",
}
#: Those parts that are notes for people.
NOTES = {kind: letter for letter, kind in PARTS.items() if kind in NOTE_KINDS}
#: What the changelog says when nobody knows more than the sealed name.
ACTIONS = {"done": "completed_task", "failed": "failed_task", "cancelled": "cancelled_task", "ready": "released_task"}
#: How a task ends, by the word in a sealed name.
_VERDICTS = {str(verdict): verdict for verdict in Verdict}
#: Letters at the end of a nonce that are the same when the same end is said again.
TAG = 8
#: Parts are ours and small, but nobody may make us read without end.
LARGEST_PART = 1 << 28


class Sealed:
    """A claim that has ended (or is about to), and what its name says is left to do."""

    __slots__ = ("_begins", "digest", "folder", "kind", "name", "nonce", "parts", "settles_late", "spot")

    def __init__(self, folder: Folder, spot: Spot, nonce: str, end: str) -> None:
        self.folder = folder
        #: What the token is called among the sealed ones.
        self.name = f"{folder.layout.ready_path(spot).rpartition('/')[2]}~{nonce}~{end}"
        self.spot = spot
        self.nonce = nonce
        self._begins = name_of(spot.id, f"~{nonce}~")
        self.kind, _, self.parts = end.partition(".")
        #: Whether its bytes are put on the disk together with the seal, by one fsync, before anything is visible.
        self.settles_late = folder.durable and self.parts == "r" and folder.syncs_once
        #: Of its result, as whoever wrote it knows it.
        self.digest = ""

    @property
    def path(self) -> str:
        """Where the token is."""
        return f"{self.folder.root}/{SEALED}/{self.name}"

    def named(self, letter: str) -> str:
        """What this part is called in tmp."""
        return f"{self._begins}{PARTS[letter]}"

    def part(self, letter: str) -> str:
        """Where this part was written."""
        return f"{self.folder.root}/{self.folder.layout.tmp}/{self.named(letter)}"

    @property
    def tag(self) -> str:
        """The letters of its nonce by which the same end is known when it is said again."""
        return self.nonce.partition(".")[0][-TAG:]

    def task(self) -> Task:
        """The task under seal, or as much of it as its name tells."""
        try:
            return self.folder.load(self.spot, self.path)
        except (FileNotFoundError, Invalid):
            return stub(self.spot)


def end(folder: Folder, how: End) -> Said:
    """Row *end of a claim*: seal, then carry out."""
    sealed, committed = seal(folder, _spot(folder, how.claim), how)
    return _carry_out(sealed, how) if committed else _too_late(sealed, how)


def end_all(folder: Folder, ends: Sequence[End], patiently: Callable[..., Said]) -> list[Said]:
    """The same for many, which share what they wait for: all that follows is on the disk before the first seal.

    If the disk refuses something in between, they go on one by one, `patiently`: what is sealed is carried out as
    far as it is not yet, what is not is ended from the beginning.
    """
    folder.hold(folder.of_end)  # refused before anything is written
    drawn = [(how, draw_up(folder, _spot(folder, how.claim), how)) for how in ends]
    said: dict[int, Said] = {}
    sealed: dict[int, tuple[Sealed, End]] = {}
    try:
        _write(folder, [one for _, one in drawn])
        for number, (how, (token, _)) in enumerate(drawn):
            if commit(token, how.claim):
                sealed[number] = (token, how)
        _carry_out_all(folder, sealed, said)
        for number, (how, (token, _)) in enumerate(drawn):
            if number not in sealed:  # after all the others: it may be one of these that has ended it
                said[number] = _too_late(token, how)
    except (OSError, Unavailable):
        for number, (_, (token, _)) in enumerate(drawn):
            if number not in sealed and number not in said:
                clear(token)
        for number, how in enumerate(ends):
            if number not in said:
                said[number] = patiently(_go_on, folder, how, sealed.get(number))
    return [said[number] for number in range(len(ends))]


def _go_on(folder: Folder, how: End, sealed: tuple[Sealed, End] | None) -> Said:
    """What is left to do of one of many, after trouble."""
    if sealed is None:
        return end(folder, how)
    said = roll(sealed[0], end=how)
    return Said.OK if said is Said.ALREADY else said


def _carry_out_all(folder: Folder, sealed: dict[int, tuple[Sealed, End]], said: dict[int, Said]) -> None:
    """Those that only publish a result are carried out together, all others one by one."""
    plain = {number: (token, how) for number, (token, how) in sealed.items() if token.parts == "r"}
    if plain:
        answers = publish(folder, [(token, how, _line(token, how)) for token, how in plain.values()])
        said.update(zip(plain, answers, strict=True))
    for number, (token, how) in sealed.items():
        if number not in plain:
            said[number] = _carry_out(token, how)


def _write(folder: Folder, drawn: Sequence[tuple[Sealed, dict[str, bytes]]]) -> None:
    """All parts of these ends are on the disk."""
    early = [(token, content) for token, content in drawn if not token.settles_late]
    together = folder.syncs_together(sum(len(content) for _, content in early))
    for token, content in drawn:
        for letter, data in content.items():
            folder.write(token.named(letter), data, sync=folder.durable and not token.settles_late and not together)
    if early:
        folder.settle(folder.layout.tmp, together=together)


def _spot(folder: Folder, claim: Claim) -> Spot:
    path = folder.layout.claimed_path(claim.task, claim.fence)
    return Spot(state=State.CLAIMED, id=claim.task.id, slug=claim.task.slug, worker=claim.fence, path=path)


def _line(sealed: Sealed, how: End) -> bytes:
    """The line that tells of this end; of a result with its digest."""
    now, claim, action = sealed.folder.clock.now(), how.claim, how.action or "released_task"
    return changelog.line(now, action, claim.task.id, claim.fence, how.details, sealed.digest)


def _carry_out(sealed: Sealed, how: End) -> Said:
    folder, line = sealed.folder, _line(sealed, how)
    if how.action == "recovered_task" and folder.layout.reclaims:
        note = f"- {iso(folder.clock.now())} {sealed.spot.path.rpartition('/')[2]}: {how.details}\n"
        folder.make_place(folder.at(folder.layout.reclaims))
        fs.append(folder.at(folder.layout.reclaims), note.encode("utf-8", "replace"))
    return roll(sealed, end=how, line=line)


def draw_up(folder: Folder, claimed: Spot, end: End) -> tuple[Sealed, dict[str, bytes]]:
    """The claim as it will be sealed, and the bytes of each part; nothing is written."""
    content = _content(folder, end)
    kind = end.result.verdict.value if end.result else "ready"
    digest = changelog.digest(content["r"]) if "r" in content else ""
    nonce = f"{fs.fresh_name()}{_tag(kind, end.claim.fence, content)}{'.' if digest else ''}{digest}"
    sealed = Sealed(folder, claimed, nonce, f"{kind}.{''.join(content)}" if content else kind)
    sealed.digest = digest
    return sealed, content


def seal(folder: Folder, claimed: Spot, end: End) -> tuple[Sealed, bool]:
    """Write what follows, then commit. False: the claim is over, and the parts lie there for nobody."""
    tmp = folder.hold(folder.of_end)[1]  # refused before anything is written
    sealed, content = draw_up(folder, claimed, end)
    early = folder.durable and not sealed.settles_late
    try:
        for letter, data in content.items():
            folder.write(sealed.named(letter), data, sync=early, tmp=tmp)
        if content and early:
            folder.sync(folder.layout.tmp)
        return sealed, commit(sealed, end.claim)
    except (Unavailable, OSError):
        clear(sealed)
        raise


def commit(sealed: Sealed, claim: Claim) -> bool:
    """The one call that decides: the claimed file is the sealed one. False: the claim is over."""
    folder, layout, path = sealed.folder, sealed.folder.layout, sealed.spot.path
    claimed, _, there, *_ = folder.hold(folder.of_end)
    name = path[len(layout.claimed) + 1 :]
    if not layout.guarded:
        return fs.move_at(claimed, name, there, sealed.name)
    with folder.guard(sealed.spot.id):
        return folder.holds(claim, path) and fs.move_at(claimed, name, there, sealed.name)


def clear(sealed: Sealed) -> None:
    """Where the disk is full, every part that nobody needs is in the way: gone, unless it was sealed after all."""
    if not fs.exists(sealed.path):
        for letter in sealed.parts:
            fs.remove(sealed.part(letter))


def _tag(kind: str, fence: str, content: dict[str, bytes]) -> str:
    """Letters by which the same end of the same claim is known when it is said again.

    The task as it goes back is left out, since times are in it.
    """
    said = [kind.encode(), fence.encode("utf-8", "replace")]
    for letter, data in content.items():
        if letter not in "nb":
            said.append(data)
    return f"{crc32(bytes(1).join(said)):08x}"


def carried_before(sealed: Sealed) -> bool:
    """Whether this same end was sealed before, its outcome unknown to whoever says it again. Carries it out: with the
    bytes that are here now, if the disk has failed to write those that were there then.
    """
    folder, tag = sealed.folder, sealed.tag
    for spot, nonce, end in list(folder.sealed()):
        before = Sealed(folder, spot, nonce, end)
        if spot.id == sealed.spot.id and before.tag == tag:
            lost = "r" in before.parts and not fs.exists(before.part("r"))
            roll(sealed if lost and fs.move(before.path, sealed.path) else before)
            return True
    tries = fs.names(folder.of(TRIES, sealed.spot.id)) if "t" in sealed.parts else []
    if any(name.partition(".")[0].endswith(tag) for name in tries):
        return True
    unfinished = folder.unfinished_result(sealed.spot.id)
    return unfinished is not None and unfinished.split("~")[1].partition(".")[0].endswith(tag)


def _content(folder: Folder, end: End) -> dict[str, bytes]:
    """The bytes of each part of this end, by its letter."""
    task, content = end.claim.task, {}
    if end.result is not None:
        kept = task if end.task is None else _kept(end)
        content["r"] = folder.layout.dump_result(kept, end.result)
        if end.task is not None:
            content["n"] = folder.spell(kept, SLACK)
            if folder.layout.rewritten:
                content["b"] = folder.layout.beside(kept)
    elif end.task is not None or end.delay or folder.layout.rewritten:
        now = folder.clock.now()
        after = (end.task or task).replace(updated=now)
        if end.delay:
            after = after.replace(not_before=now + end.delay)
        content["n"] = folder.spell(after, SLACK)
        if folder.layout.rewritten:  # also if nothing must be kept: what was kept before must not come back
            content["b"] = folder.layout.beside(after)
    if end.attempt is not None:
        evidence = end.attempt.evidence
        content["t"] = _json({**end.attempt.as_dict(), "evidence": evidence and evidence.as_dict()})
    if end.note is not None:
        content[NOTES[end.note[0]]] = end.note[1].encode("utf-8", "replace")
    if end.children:
        named = [folder.layout.named(child) for child in end.children]
        texts = [(child, folder.spell(child).decode()) for child in named]
        content["c"] = _json([{"id": c.id, "slug": c.slug, "by": c.by, "text": text} for c, text in texts])
    return content


def _kept(end: End) -> Task:
    """The task as it stays with its result, under the name it has here."""
    return end.claim.task if end.task is None else end.task.replace(slug=end.claim.task.slug)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def give_up(sealed: Sealed, worker: str) -> None:
    """The claim was over before it could be sealed: keep its result aside and tell where, drop the rest."""
    kept = ""
    for letter in sealed.parts:
        if letter in "rt":
            kept = path_of(LATE, sealed.spot.id, f"~{sealed.nonce}")
            fs.move(sealed.part(letter), sealed.folder.at(kept))
        else:
            fs.remove(sealed.part(letter))
    if kept:
        sealed.folder.tell("late_result", sealed.spot.id, worker, f"kept in {kept}")


def roll(sealed: Sealed, *, end: End | None = None, line: bytes | None = None) -> Said:
    """Carry the end out, as far as it is not yet. Any number may do this at once; each step is done once.

    The worker itself passes what it knows: `end`, and the `line` to log. A roller passes nothing, and
    logs a line only if a crash swallowed it.
    """
    folder = sealed.folder
    if line is None:
        line = _swallowed(sealed)
    if folder.durable or end is None:
        _settle_seal(sealed, known=end is not None)
    if "c" in sealed.parts and (wrong := admit_parts(folder, sealed.part("c"), sealed.spot.id)):
        return _hold_back(sealed, wrong)
    if "t" in sealed.parts:
        tries = folder.of(TRIES, sealed.spot.id)
        fs.make_dir(tries)
        folder.sync(TRIES)
        fs.move(sealed.part("t"), f"{tries}/{sealed.nonce}")
        folder.sync(path_of(TRIES, sealed.spot.id))
    for kind, letter in NOTES.items():
        if letter in sealed.parts:
            _publish_note(sealed, kind, letter)
    if "b" in sealed.parts:
        fs.move(sealed.part("b"), folder.of(BESIDE, sealed.spot.id))
        folder.sync(BESIDE)
    if "o" in sealed.parts:
        from taskpit.store.withdraw import withdraw

        withdraw(sealed)
    if sealed.kind == "ready":
        return _back_to_ready(sealed, line)
    return _publish_result(sealed, end, line)


def _hold_back(sealed: Sealed, wrong: str) -> Said:
    """Its children cannot be read: it goes back instead, held. The rename from seal to seal makes one roller decide;
    the list goes last, since whoever finds it gone takes the children for entered.
    """
    folder, task = sealed.folder, sealed.task()
    held = task.replace(hold=one_line(f"its parts could not enter: {wrong}"))
    claim = Claim(task=task, worker="keeper", fence="keeper")
    how = End(claim=claim, task=held, action="blocked", details=held.hold)
    again, content = draw_up(folder, sealed.spot, how)
    _write(folder, [(again, content)])
    if not fs.move(sealed.path, again.path):
        clear(again)
        return Said.ALREADY
    roll(again, end=how, line=_line(again, how))
    folder.set_aside(f"{folder.layout.tmp}/{sealed.named('c')}", wrong, step=fs.link)
    give_up(sealed, claim.fence)
    return Said.LOST


def _settle(folder: Folder, *ends: Sealed) -> None:
    """The results and the seals of these are on the disk. What the disk refuses must be written anew: to ask again for
    what it has failed to write, it says yes.
    """
    try:
        if folder.syncs_together(len(ends)):
            fs.sync_all(folder.at(SEALED))
            return
        for sealed in ends:
            fs.sync_path(sealed.part("r"), touch=True)
    except PermissionError:  # of another user, who has gone
        for sealed in ends:
            fs.sync_path(sealed.part("r"))
        folder.sync(SEALED, folder.layout.claimed)
    except FileNotFoundError:
        return  # another roller has published it
    except OSError:
        for sealed in ends:
            fs.remove(sealed.part("r"))
        raise


def _settle_seal(sealed: Sealed, *, known: bool) -> None:
    """What follows must not survive a power loss that the seal does not.

    A result that is not `known` to whoever carries on, and of which a power loss has left a part, was never
    acknowledged: without it the task is not done.
    """
    folder = sealed.folder
    if not known and "r" in sealed.parts and is_torn(sealed.part("r"), sealed.nonce):
        fs.remove(sealed.part("r"))
    if sealed.settles_late:
        _settle(folder, sealed)
    elif sealed.parts != "r":
        folder.sync(SEALED, OUTCOMES if "o" in sealed.parts else folder.layout.claimed)


def _swallowed(sealed: Sealed) -> bytes | None:
    """The line that tells of this end, unless somebody has logged one since it was sealed."""
    status = fs.status(sealed.path)
    if status is None:
        return None
    path, since = sealed.folder.at(CHANGELOG), iso(status.st_ctime - 1)
    if changelog.tells_end(path, sealed.spot.id, since=since, final=sealed.kind != "ready"):
        return None
    if "r" in sealed.parts and not sealed.digest:
        try:
            sealed.digest = changelog.digest(fs.read(sealed.part("r"), LARGEST_PART)[0])
        except OSError:  # another roller has published it, and tells
            sealed.digest = ""
    return sealed.folder.line(ACTIONS[sealed.kind], sealed.spot.id, details=changelog.CARRIED_OUT, digest=sealed.digest)


def _publish_note(sealed: Sealed, kind: str, letter: str) -> None:
    for name in (kind, f"{kind}-{sealed.nonce}"):
        try:
            note = sealed.folder.at(sealed.folder.layout.note_path(sealed.spot, name))
            if not fs.move_new(sealed.part(letter), note) and sealed.folder.make_place(note):
                fs.move_new(sealed.part(letter), note)
        except FileExistsError:
            continue  # of an earlier attempt; people may want both
        return


def _back_to_ready(sealed: Sealed, line: bytes | None) -> Said:
    """The next bytes over the token, then the token itself to ready: never two tokens."""
    folder = sealed.folder
    if "n" in sealed.parts:
        fs.move(sealed.part("n"), sealed.path)
    if not freshen(sealed.path):
        return Said.ALREADY
    ready = folder.layout.ready_path(sealed.spot)
    _finish_up(sealed, line and _with_row(sealed, line, ready))
    enter(folder, sealed.spot.id, sealed.path, ready)
    folder.sync(folder.layout.ready, SEALED)
    return Said.OK


def _with_row(sealed: Sealed, line: bytes, ready: str) -> bytes:
    """The line that tells a catalogue, too, how the task stands from now on."""
    try:
        task, status = sealed.folder.load(sealed.spot, sealed.path), fs.status(sealed.path)
    except (OSError, Invalid):
        return line  # another has carried it on
    return with_row(line, task, ready.rpartition("/")[2], status) if status is not None else line


def _publish_result(sealed: Sealed, end: End | None, line: bytes | None) -> Said:
    folder, place = sealed.folder, ""
    task = end.claim.task if end else sealed.task()
    if "n" in sealed.parts:  # over what is read once it is finished, and before it is
        fs.move(sealed.part("n"), folder.of(IDS, sealed.spot.id) if folder.layout.rewritten else sealed.path)
        folder.sync(IDS)
    said = _link_result(sealed, task)
    if said is None and end is not None:
        return _publish_again(sealed, end, line)
    if said is None:  # a power loss took a result that was never acknowledged: the task was not done
        enter(folder, sealed.spot.id, sealed.path, folder.layout.ready_path(sealed.spot))
        return Said.LOST
    if folder.durable and not sealed.settles_late:
        place = folder.layout.result_path(task, Verdict(sealed.kind)).rpartition("/")[0]
        folder.sync(place)
    _finish_up(sealed, line if said is Said.OK else folder.line("late_result", sealed.spot.id))
    _retire(sealed, task, said)
    if place and place not in folder.layout.results:  # then nothing but the outcome tells
        folder.sync(OUTCOMES)
    return said


def _retire(sealed: Sealed, task: Task, said: Said) -> None:
    """The token goes, then the result becomes the outcome, in this order."""
    folder = sealed.folder
    ended = folder.layout.ended_path(task, _VERDICTS[sealed.kind])
    if ended and (said is Said.OK or sealed.kind == Verdict.DONE):  # else another's name says that it is done
        fs.move(sealed.path, folder.at(ended))
    _, tmp, there, outcomes, *_ = folder.hold(folder.of_end)
    fs.remove_at(there, sealed.name)  # also after a move: of two names of one file a rename takes none away
    of, rest = (outcomes, sealed.kind) if said is Said.OK else (folder.dir(LATE), sealed.nonce)
    fs.move_at(tmp, sealed.named("r"), of, name_of(sealed.spot.id, f"~{rest}"))


def publish(folder: Folder, ends: Sequence[tuple[Sealed, End, bytes]]) -> list[Said]:
    """Carry out many ends that only publish a result: each step for all of them before the next."""
    said, places, once = [], dict[str, None](), folder.syncs_once
    if once:
        _settle(folder, *(sealed for sealed, _, _ in ends))
    for sealed, end, _ in ends:
        said.append(_link_result(sealed, end.claim.task))
        path = folder.layout.result_path(end.claim.task, Verdict(sealed.kind))
        places[path.rpartition("/")[0]] = None
    if not once:
        folder.sync(*places)
    lines = []
    for (sealed, _, line), one in zip(ends, said, strict=True):
        if one is not None:
            lines.append(line if one is Said.OK else folder.line("late_result", sealed.spot.id))
    folder.log(b"".join(lines))
    for (sealed, end, _), one in zip(ends, said, strict=True):
        if one is not None:
            _retire(sealed, end.claim.task, one)
    if not once and places.keys() - folder.layout.results:  # then nothing but the outcome tells
        folder.sync(OUTCOMES)
    return [one or _publish_again(*ends[at]) for at, one in enumerate(said)]


def _publish_again(sealed: Sealed, end: End, line: bytes | None) -> Said:
    """The result was swept from under a very slow worker, which still knows it: seal anew, if the token is there.

    If it is not, the end was carried out or the task given back long ago: what we bring is late.
    """
    folder = sealed.folder
    if (result := end.result) is None:
        return Said.LOST
    data = folder.layout.dump_result(_kept(end), result)
    digest = changelog.digest(data)
    again = Sealed(folder, sealed.spot, f"{fs.fresh_name()}{sealed.tag}.{digest}", f"{sealed.kind}.r")
    again.digest = digest
    folder.write(again.named("r"), data, sync=folder.durable)
    if fs.move(sealed.path, again.path):
        folder.sync(folder.layout.tmp, SEALED)
        return _publish_result(again, None, line)
    give_up(again, end.claim.fence)
    return Said.LOST


def _link_result(sealed: Sealed, task: Task) -> Said | None:
    """Give the result its name, once: OK; LOST, another's stands there; None, there is none to publish."""
    folder, verdict = sealed.folder, _VERDICTS[sealed.kind]
    held = folder.hold(folder.of_end)
    late = verdict is not Verdict.DONE and _is_done_by_others(sealed)
    for again in () if late else ("", sealed.nonce):
        path = folder.layout.result_path(task, verdict, again)
        target = f"{folder.root}/{path}"
        try:
            if fs.link_at(held[1], sealed.named("r"), *folder.shown(path, held)):
                return Said.OK
        except FileNotFoundError:
            if folder.make_place(target):
                return _link_result(sealed, task)
            # Another roller has published it or kept it aside, and cleared up; or there is none to publish.
            if fs.exists(folder.of(LATE, sealed.spot.id, f"~{sealed.nonce}")):
                return Said.LOST
            return Said.OK if folder.outcome(sealed.spot.id) else None
        ours, theirs = fs.status(sealed.part("r")), fs.status(target)
        if ours is None or (theirs is not None and ours.st_ino == theirs.st_ino):
            return Said.OK  # another roller has linked it
        if _is_leftover(folder, task, verdict):
            # Its writer died or lost the task before it said that this is the result: keep it aside, publish ours.
            aside = folder.of(LATE, task.id, f"~{fs.fresh_name()}")
            fs.move(target, aside)
            moved = fs.status(aside)
            if moved is not None and moved.st_ino == ours.st_ino:  # another roller was faster: this is ours
                fs.link(aside, target)
                fs.remove(aside)
            return _link_result(sealed, task)
        if verdict is Verdict.DONE:
            break  # a foreign worker has published: its result stands, ours is kept aside
    return Said.LOST


def _is_done_by_others(sealed: Sealed) -> bool:
    """Whether another program has published that the task is done: no failure of ours takes that back."""
    folder, spot = sealed.folder, sealed.spot
    return folder.outcome(spot.id) is None and folder.ended_as(spot) is Verdict.DONE


def _is_leftover(folder: Folder, task: Task, verdict: Verdict) -> bool:
    """Whether a result that stands there says nothing: the name of the task's own file does, and it does not."""
    if not folder.layout.ended_path(task, verdict) or folder.outcome(task.id) is not None:
        return False
    return not any(fs.exists(folder.at(path)) for path in folder.layout.finished_paths(task))


def _finish_up(sealed: Sealed, line: bytes | None) -> None:
    """What must be done before the token's last move, since nobody comes back for it after that."""
    if line is not None:
        sealed.folder.log(line)
    if "c" in sealed.parts:
        fs.remove(sealed.part("c"))


def _too_late(sealed: Sealed, how: End) -> Said:
    """The claim was over: because this very end was carried out before, or because another has the task."""
    folder, claim = sealed.folder, how.claim
    if carried_before(sealed) or (how.result is not None and _ended_by(folder, claim, how.result.verdict)):
        for letter in sealed.parts:
            fs.remove(sealed.part(letter))
        if how.result is not None and folder.durable:  # whoever ended it may not have come so far yet
            _settle_outcome(folder, how)
        return Said.ALREADY
    give_up(sealed, claim.fence)
    return Said.LOST


def _settle_outcome(folder: Folder, how: End) -> None:
    """The result that stands is on the disk, and so is where it stands."""
    result = how.result
    assert result is not None
    path = folder.layout.result_path(how.claim.task, result.verdict)
    for file in (folder.outcome_path(how.claim.task.id, result.verdict), folder.at(path)):
        try:
            fs.sync_path(file)
        except FileNotFoundError:
            continue
    folder.sync(SEALED, OUTCOMES, path.rpartition("/")[0])


def _ended_by(folder: Folder, claim: Claim, verdict: Verdict) -> bool:
    """Whether this very claim has ended this way before."""
    try:
        data, _ = fs.read(folder.outcome_path(claim.task.id, verdict), LARGEST_RESULT)
        spot = Spot(state=verdict.state, id=claim.task.id, slug=claim.task.slug, verdict=verdict)
        return folder.layout.load_result(spot, data)[0].worker == claim.fence
    except (OSError, Invalid):
        return False

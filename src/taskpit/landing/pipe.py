"""The landing of one task, step by step: read it beside this table. Decides nothing about attempts; that is policy.

G is git in our own repository; B base, C candidate, L landing commit, OLD the line's last commit, X the fence.

    enter     1 sync        fetch the branch; the line has all of it
              2 workspace   B is the line, with what the needs landed; a clone of its own; files copied; set-up
    hand_in   4 candidate   C from the clone's files, frozen paths from the line; refs/pit/cand
              5 check       in a fresh clone of exactly C
              6 hand in     refs/pit/hand; the claim ends held, the slot is free
    land      7 fence       refs/pit/fence is this claim; L recorded and in the line: it has landed, go to 11
              8 merge       merge-tree OLD C; L on OLD; refs/pit/land, under the fence
              9 recheck     in a fresh clone of exactly L, unless its tree is known to be green
             10 land        one transaction: verify the fence, move the line from OLD to L
             11 seal        by the caller: the outcome is Done
    after    12 publish     the person's branch, if nothing is in the way; can be repeated
             13 clean       the clone and all refs but the candidate's

A crash at any place: before 10 it has not landed, and the next one begins at 7 with the same candidate; after 10 it
has, and the next one finds L in the line and seals. So a task is done if and only if it landed.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.ids import path_of
from taskpit.landing.candidate import Candidates, Taken, size
from taskpit.landing.clones import Clones
from taskpit.landing.forge import Pulls
from taskpit.landing.git import ZERO, Git, GitTrouble, Ref
from taskpit.landing.line import BranchTrouble, landed_as, line_of
from taskpit.landing.repository import Merge, Repository
from taskpit.landing.values import FEW, FenceLost, HandIn, Hands, Terms, Waits, frozen_edits, held, name_of
from taskpit.model import Card, Claim, Done, Evidence, Failed, Outcome, Release, Task, Try, brought
from taskpit.policy import counting
from taskpit.queue import Queue
from taskpit.race import parent_of
from taskpit.rules import check_mode

#: How often a landing begins again because others were faster.
TURNS = 100
#: The reason in the result of a task that is done without a change.
NOTHING_TO_LAND = "nothing to land"
#: So many questions about one candidate are kept, and so much of each.
QUESTIONS, LONGEST_QUESTION = 20, 500


class LandingPipe:
    """Landing for the tasks of one queue in one repository."""

    def __init__(self, repository: Repository, queue: str, terms: Terms) -> None:
        self.repository = repository
        self.terms = terms
        self.queue = self.digest(queue)
        self.clones = Clones(repository, self.queue, terms)
        self._open, self._opening = False, threading.Lock()

    @staticmethod
    def digest(queue: str) -> str:
        """The queue as part of refs and paths."""
        return hashlib.sha256(os.fsencode(queue)).hexdigest()[:12]

    @property
    def git(self) -> Git:
        """Git in our own repository."""
        return self.repository.git

    @property
    def files(self) -> Candidates:
        """From files to trees, in our own repository."""
        return Candidates(self.git)

    def ready(self) -> None:
        """Our repository is open; GitTrouble if nothing can land from the person's."""
        with self._opening:
            if not self._open:
                self.repository.open()
                fs.make_dir(f"{self.repository.folder}/queues")
                fs.append(f"{self.repository.folder}/queues/{self.queue}", b"")
                self._open = True

    def ref(self, what: str, task_id: str) -> str:
        """The ref of this kind for a task."""
        return f"refs/pit/{what}/{self.queue}/{name_of(task_id)}"

    def workspace(self, task_id: str) -> str:
        """Where a task's clone is."""
        return self.clones.path(task_id)

    # -- 1, 2: a place to work -----------------------------------------------------------------------

    def enter(self, task: Task, hands: Hands, tries: Sequence[Try] = (), needs: Sequence[Card | None] = ()) -> str:
        """The task's own clone; that of an earlier attempt as it left it, or caught up. Waits: a person must act."""
        made = {card.task.id: card.task.created for card in needs if card is not None}
        if self.clones.set_aside(task):
            self.forget(task.id, approval=True)
        terms = self._settled(task)
        path = self.workspace(task.id)
        if terms.land != "pr":  # that begins from the remote's branch
            self.repository.require_branch(terms.onto)
        if self.clones.is_ours(path):
            if tries and not counting(task, tries):
                self._catch_up(task, terms, hands, made)
            return path
        self.ready()
        base = self._base(task, terms, made)
        self.git.set(self.ref("base", task.id), base)
        self.clones.make(task, base, terms, hands)
        return path

    def _catch_up(self, task: Task, terms: Terms, hands: Hands, made: Mapping[str, float]) -> None:
        """A person says: again. The clone begins from the branch as it is now, its changes merged in, if they fit."""
        self.ready()
        base, line = self.git.ref(self.ref("base", task.id)), self._base(task, terms, made)
        if not base or base == line:
            return
        taken = self.files.take(self.workspace(task.id), terms, base, self._target(terms, base))
        commit = self.git.commit(taken.tree, [base], _message(task))
        merge = self.repository.merge(line, commit)
        if not merge.conflicts:
            self.git.set(self.ref("cand", task.id), commit)
            self._rebase(task.id, terms.onto, line, merge.tree)
            hands.say(f"its clone begins from {line[:12]} now")

    def _settled(self, task: Task) -> Terms:
        """How it lands, with a branch: resolved by name, once for each clone."""
        terms = self.terms.of(task)
        if not terms.onto:
            terms = terms.replace(onto=self.clones.target(task.id) or self.repository.current_branch())
        if terms.land == "pr" and parent_of(task):
            raise Waits(f"racers do not land by pull requests: say `land: merge` or `branch` in {task.id}")
        if terms.away and terms.land not in ("none", "pr"):
            raise Waits(f"the queue is on another machine, where land {terms.land} leaves nothing: say `land: pr`")
        return terms

    def target_of(self, task: Task) -> str:
        """What people call the place where its work goes."""
        terms = self._settled(task)
        names = {"merge": terms.onto, "pr": f"{terms.onto} by a pull request"}
        return names.get(terms.land, f"pit/{name_of(parent_of(task) or task.id)}")

    def branch_of(self, task_id: str) -> str:
        """Its branch at the remote, where other queues have tasks of the same id."""
        return f"pit/{name_of(task_id)}-{self.queue[:6]}"

    def _own_branch(self, task_id: str, commit: str) -> str:
        """Its branch here, with a number where another is called so: the person's, or that of a task of another queue,
        or of an earlier one in the same place.
        """
        return self.repository.free_branch(f"pit/{name_of(task_id)}", commit)

    def _line(self, terms: Terms, branch: str) -> str:
        """The branch with what has landed on it: here, or at the remote."""
        return self.repository.remote_line(branch) if terms.land == "pr" else self.repository.sync(branch)

    def _base(self, task: Task, terms: Terms, made: Mapping[str, float]) -> str:
        """The line, which holds what the needs have landed; a branch begins with the branches it needs. What is older
        than the need itself landed for another task so called, in a queue that was in the same place before.
        """
        base = self._line(terms, terms.onto)
        lands = self.git.look(*(self.ref("land", need) for need in task.needs)) if task.needs else []
        for need, landed in zip(task.needs, (ref.oid for ref in lands), strict=True):
            if not landed or landed_as(self.git, landed, base):
                continue
            if int(self.git.say("show", "--no-patch", "--format=%ct", landed)) < int(made.get(need, 0)):
                continue
            if terms.land != "branch":
                raise Waits(f"{need}, which it needs, landed elsewhere and is not on {terms.onto}")
            merge = self.repository.merge(base, landed)
            if merge.conflicts:
                raise Waits(f"the work of its needs does not go together: {', '.join(merge.conflicts[:5])}")
            base = self.git.commit(merge.tree, [base, landed], f"Begin with {need}\n")
        return base

    # -- 4, 5, 6: what it brought --------------------------------------------------------------------

    def is_unchanged(self, task: Task) -> bool:
        """Whether its clone has nothing to land."""
        terms = self._settled(task)
        self.ready()
        base = self.git.ref(self.ref("base", task.id))
        taken = self.files.take(self.workspace(task.id), terms, base, self._target(terms, base))
        return taken.tree == self.git.tree_of(base) and not taken.questions

    def hand_in(self, claim: Claim, done: Done, hands: Hands, *, check: bool = True, answered: bool = False) -> Outcome:
        """The claim's end: handed in and held, or failed because there is nothing, or nothing green, to land.

        `answered`: the run left a result, so a task that changed nothing is done if its check is green or absent.
        """
        task, path = claim.task, self.workspace(claim.task.id)
        terms = self._settled(task)
        self.ready()
        if not self.clones.is_ours(path):
            message = f"its clone is gone or another stands in its place: {path}"
            return Failed(error=message, kind="task", output=done.output)
        began, seen = self.git.look(self.ref("base", task.id), self.ref("seen", task.id))
        base = began.oid
        taken = self.files.take(path, terms, base, self._target(terms, base))
        if taken.tree == self.git.tree_of(base) and task.extra.get("allow-empty") not in (True, "yes", "true"):
            if answered and not parent_of(task):
                return self._answered(task, done, base, terms, hands, check=check)
            left_out = frozen_edits(taken.left_out)
            reasons = ("nothing changed in its clone, so there is nothing to land", left_out, *taken.questions)
            return Failed(error="; ".join(filter(None, reasons)), kind="empty", output=done.output)
        if taken.refused:
            return Failed(error=f"it cannot land: {'; '.join(taken.refused)}", kind="check", output=done.output)
        commit = self.git.commit(taken.tree, [base], _message(task))
        self.git.set(self.ref("cand", task.id), commit)
        files = len(taken.changes)
        hands.say(f"candidate {commit[:12]}: {'1 file' if files == 1 else f'{files} files'}")
        evidence = None
        if check and check_mode(task) != "disabled":
            target = self._target(terms, base)
            evidence = self.clones.check(task.id, task.check, commit, terms, hands, target)
            hands.say(f"the check is {'green' if evidence.green else 'red'} on exactly that")
            if not evidence.green and check_mode(task) == "strict":
                there = hands.run(task.check, path, self.terms.check_limit, env=terms.env)
                loose = self.files.loose(path, commit, terms) if there.green else None
                return self._red(done, evidence, loose, taken.left_out)
        handed = self._handed(claim, done, terms, evidence, (base, commit), taken)
        if not check:
            handed = handed.replace(check="", unchecked=True)
        if seen.oid:
            handed = self._as_approved(handed, HandIn.load(seen.data))
        self.git.set(self.ref("hand", task.id), self.git.blob(handed.dump()))
        return held(task, handed, () if handed.approved else handed.questions)

    def _answered(self, task: Task, done: Done, base: str, terms: Terms, hands: Hands, *, check: bool) -> Done | Failed:
        """The end of a task whose result is a text: done unless its check is red."""
        evidence = None
        if check and check_mode(task) != "disabled":
            evidence = self.clones.check(task.id, task.check, base, terms, hands)
            if not evidence.green and check_mode(task) == "strict":
                message = f"nothing changed in its clone, and {evidence.complaint()}"
                return Failed(error=message, kind="check", output=done.output, evidence=evidence)
        return done.replace(reason=done.reason or NOTHING_TO_LAND, evidence=evidence)

    def _as_approved(self, handed: HandIn, seen: HandIn) -> HandIn:
        """The same change as the one that was approved before, on another base, needs no second approval."""
        same = (seen.questions, seen.review) == (handed.questions, handed.review)
        if not same or self.files.patch(seen.base, seen.commit) != self.files.patch(handed.base, handed.commit):
            return handed
        return handed.replace(approved=seen.approved)

    def _target(self, terms: Terms, base: str) -> str:
        """What frozen paths are taken from: the branch as it is now."""
        if not terms.frozen:
            return base
        try:
            return self._line(terms, terms.onto)
        except BranchTrouble:  # landing will say so
            return self.repository.line(terms.onto)

    def _handed(
        self,
        claim: Claim,
        done: Done,
        terms: Terms,
        evidence: Evidence | None,
        commits: tuple[str, str],
        taken: Taken,
    ) -> HandIn:
        """All that landing it needs, in one value."""
        task, (base, commit) = claim.task, commits
        files, added, removed = size(taken.changes)
        return HandIn(
            **{**terms.as_dict(), **brought(done), "evidence": evidence, "cost": dict(done.cost)},
            task=task.id,
            parent=parent_of(task),
            title=task.title,
            commit=commit,
            base=base,
            tree=taken.tree,
            target=self._own_branch(parent_of(task) or task.id, commit) if terms.land == "branch" else terms.onto,
            check=task.check if check_mode(task) == "strict" else "",
            green=evidence is not None and evidence.green,
            questions=_few(taken.questions),
            despite=taken.despite,
            left_out=_few(taken.left_out),
            worker=claim.fence,
            attempt=claim.attempt,
            reason=done.reason,
            files=files,
            added=added,
            removed=removed,
        )

    def _red(self, done: Done, evidence: Evidence, loose: list[str] | None, left_out: Sequence[str] = ()) -> Failed:
        """Fail on what would be committed. Where the check is green in the agent's clone, say which files differ."""
        message = evidence.complaint()
        if loose is None and left_out:
            message = f"{frozen_edits(left_out)}; {message}"
        if loose is not None:
            frozen = f"changes to frozen paths ({', '.join(left_out[:FEW])})"
            listed = f"files that are not committed ({', '.join(loose[:FEW])})" if loose else frozen
            message = f"the check is green only with {listed}, which do not land: {message}"
        return Failed(error=message, kind="check", output=done.output, evidence=evidence)

    def presence(self, worker: str) -> fs.Flock:
        """Held by a reviewer for as long as it lives, so that others know that there is one."""
        folder = f"{self.repository.folder}/reviewers"
        os.makedirs(folder, mode=0o700, exist_ok=True)
        return fs.Flock(path_of(folder, self.queue, f"~{worker}"))

    def has_reviewer(self) -> bool:
        """Whether a reviewer of this queue lives here."""
        folder = f"{self.repository.folder}/reviewers"
        for name in fs.names(folder):
            lock = fs.Flock(f"{folder}/{name}")
            if name.startswith(f"{self.queue}~") and not lock.take(wait=False):
                return True
            lock.drop()
        return False

    # -- 7 to 11: landing ----------------------------------------------------------------------------

    def hand_in_of(self, task_id: str) -> HandIn | None:
        """What was handed in for this task here; None if nothing was."""
        self.ready()
        return self._read(task_id, *self.git.look(self.ref("hand", task_id)))

    def _read(self, task_id: str, ref: Ref) -> HandIn | None:
        try:
            return HandIn.load(ref.data) if ref.oid else None
        except (ValueError, Invalid) as error:
            raise GitTrouble(f"the hand-in of {task_id} cannot be read: {error}") from None

    def waiting(self) -> dict[str, HandIn]:
        """What was handed in here and is not cleaned up yet, by task."""
        if not self.repository.is_known():
            return {}
        self.ready()
        found = {}
        for name, ref in self.git.below(f"refs/pit/hand/{self.queue}").items():
            try:
                handed = HandIn.load(ref.data)
            except (ValueError, Invalid):  # one that cannot be read stops no other; `pit review` tells of it
                continue
            if name == self.ref("hand", handed.task):  # while a racer's lands, the task that it seals has it, too
                found[handed.task] = handed
        return found

    def approve(self, handed: HandIn, worker: str, cost: Mapping[str, object] | None = None) -> HandIn:
        """Somebody has seen this candidate and lets it land; noted where no agent writes."""
        approved = self.note(handed, handed.replace(approved=worker, cost=cost or handed.cost))
        self.git.set(self.ref("seen", handed.task), self.git.ref(self.ref("hand", handed.task)))
        return approved

    def note(self, handed: HandIn, changed: HandIn) -> HandIn:
        """What is known of this very candidate now."""
        name = self.ref("hand", handed.task)
        old = self.git.look(name)[0]
        if HandIn.load(old.data).commit != handed.commit or not self.git.move(
            name, self.git.blob(changed.dump()), old.oid
        ):
            raise GitTrouble(f"{handed.task} was handed in again meanwhile")
        return changed

    def behind(self) -> list[str]:
        """How far the person's branches are behind what landed on them, and why, as sentences."""
        return [self.repository.look(name).sentence() for name in self.repository.unpublished()]

    def landed(self, task_id: str) -> str:
        """The commit that landed this task; empty if it has not landed."""
        return self._landing(task_id)[1]

    def _landing(self, task_id: str) -> tuple[HandIn | None, str]:
        """What was handed in for this task, and the commit that landed it: one that where it lands has."""
        self.ready()
        hand, land = self.git.look(self.ref("hand", task_id), self.ref("land", task_id))
        handed = self._read(task_id, hand)
        if handed is None or not _is_landing_of(land, handed):
            return handed, ""
        place = f"refs/pit/remote/{handed.target}" if handed.land == "pr" else line_of(handed.target)
        line = self.git.look(place)[0].oid
        return handed, landed_as(self.git, land.oid, line) if line else ""

    def already(self, task_id: str) -> Done | None:
        """The end of a task that has landed and is not sealed; None if it has not."""
        if not self.repository.is_known():
            return None
        handed, commit = self._landing(task_id)
        return self.sealed(handed, commit) if handed is not None and commit else None

    def left_by(self, task: Task, tries: Sequence[Try]) -> Release | None:
        """The end of a task whose last worker died between handing in and the end of its claim; None if none did so."""
        last = tries[-1] if tries else None
        if last is None or last.kind != "lost" or not self.repository.is_known():
            return None
        handed = self.hand_in_of(task.id)
        if handed is None or handed.worker != last.worker or handed.check not in ("", task.check):
            return None
        return held(task, handed, handed.questions)

    def turn(self, target: str) -> fs.Flock:
        """Held by the lander of this branch, so that no check is run in vain; nothing is decided by it."""
        digest = hashlib.sha256(target.encode("utf-8", "replace")).hexdigest()[:12]
        return fs.Flock(f"{self.repository.folder}/turn-{digest}.lock")

    def turns(self) -> list[fs.Flock]:
        """The same for each branch on which something ever landed here, by tasks of any queue."""
        folder = self.repository.folder
        return [fs.Flock(f"{folder}/{name}") for name in sorted(fs.names(folder)) if name.startswith("turn-")]

    def land(self, claim: Claim, hands: Hands, still_ours: Callable[[], bool], parent: Claim | None = None) -> Outcome:
        """It has landed: Done. Else who goes on: the same agent session (Failed), or a person (Release, held).

        What a racer handed in lands for its `parent`: fence and landing are the parent's, so one of them lands.
        """
        task = claim.task
        handed = self.hand_in_of(task.id)
        if handed is None:
            raise GitTrouble(f"nothing was handed in for {task.id} here")
        fence = self.take_fence(parent or claim)
        if not still_ours():  # the worker that has the claim now takes the fence after us
            raise FenceLost(f"the claim on {task.id} is over")
        if landed := self.landed(handed.seals):
            return self.sealed(self.hand_in_of(handed.seals) or handed, landed)
        if not handed.may_land:  # another one was handed in since it was chosen
            return held(task, handed, handed.questions)
        if changed := handed.outdated(task):
            back = f"`pit review {task.id} --send-back TEXT` has it made and checked as the task says now"
            return held(task, handed, [f"its task was edited since it was handed in ({changed}): {back}"])
        if handed.land == "branch" and (own := self._own_branch(handed.seals, handed.commit)) != handed.target:
            handed = self.note(handed, handed.replace(target=own))
        if parent is None:
            return self._turns(claim, handed, fence, hands)
        mine = self._lend(handed, fence)
        outcome = self._turns(claim, handed, fence, hands)
        if not isinstance(outcome, Done):  # the next racer's may land
            self.git.move(self.ref("hand", handed.seals), ZERO, mine, fence=fence)
        return outcome

    def _turns(self, claim: Claim, handed: HandIn, fence: tuple[str, str], hands: Hands) -> Outcome:
        for _ in range(TURNS):
            try:
                outcome = self._turn(claim, handed, fence, hands)
            except BranchTrouble as error:
                return held(claim.task, handed, [f"it cannot land: {error.message}"])
            if outcome is not None:
                return outcome
        raise GitTrouble(f"others were faster {TURNS} times")

    def _lend(self, handed: HandIn, fence: tuple[str, str]) -> str:
        """The parent has this racer's hand-in while that lands: the next lander knows whose it is."""
        mine = self.git.blob(handed.dump())
        for what, oid in (("cand", handed.commit), ("hand", mine)):
            if not self.git.move(self.ref(what, handed.seals), oid, fence=fence):
                raise FenceLost(f"another worker has taken over the landing of {handed.seals}")
        return mine

    def _turn(self, claim: Claim, handed: HandIn, fence: tuple[str, str], hands: Hands) -> Outcome | None:
        """One try to land on the line as it is now; None if the line moved meanwhile."""
        target, land = handed.target, self.ref("land", handed.seals)
        if handed.land == "branch":
            commit = handed.commit
            old = self._begun(target, commit)
        else:
            old = self._line(handed, target)
            frozen = self.files.frozen(handed.frozen, handed.tree, old)  # so that these paths cannot conflict
            same = frozen == handed.tree
            theirs = handed.commit if same else self.git.commit(frozen, [handed.base], "frozen paths\n")
            side = old
            if not self.git.is_ancestor(handed.base, old):  # the person took out what it began from: that stays out
                side = self.git.commit(self.git.tree_of(old), [handed.base], "beside\n")
            merge = Merge(tree=frozen) if handed.base == old else self.repository.merge(side, theirs)
            if merge.conflicts:
                return self._conflict(claim, handed, old, merge)
            if handed.land == "pr":
                # Green by itself, it is pushed as it is: what becomes of it together with others is tried at the forge.
                red = self._recheck(handed, handed.commit, hands, old)
                return Pulls(self).open(claim, handed) if red is None else self._came_red(claim, handed, red, old)
            tree = self.files.frozen(handed.frozen, merge.tree, old)
            empty = tree == self.git.tree_of(old)
            if handed.approved and not empty and self._is_another(handed, old, tree):
                return self._look_again(claim, handed, old, tree)
            text = f"{' '.join(handed.title.split())[:200]}\n\nTask: {handed.seals}\nCandidate: {handed.commit}\n"
            commit = old if empty else self.git.commit(tree, [old], text)
        if not self.git.move(land, commit, fence=fence):
            raise FenceLost(f"another worker has taken over the landing of {handed.seals}")
        red = self._recheck(handed, commit, hands, old)
        if red is not None:
            return self._came_red(claim, handed, red, old)
        if old == commit or self.git.move(line_of(target), commit, old or ZERO, fence=fence):
            return self.sealed(handed, commit)
        if self.git.ref(fence[0]) != fence[1]:
            raise FenceLost(f"another worker has taken over the landing of {handed.seals}")
        return None

    def _begun(self, branch: str, commit: str) -> str:
        """What has landed on a task's own branch: nothing, or this; GitTrouble if another was faster."""
        line = self.repository.line(branch)
        if line not in ("", commit):
            raise GitTrouble(f"another task has landed on {branch} meanwhile")
        return line

    def _is_another(self, handed: HandIn, old: str, tree: str) -> bool:
        """Whether what would land is another change than the one that was approved: its branch has moved since."""
        if handed.base == old or handed.review == "none":
            return False
        return self.files.patch(old, tree) != self.files.patch(handed.base, handed.commit)

    def _look_again(self, claim: Claim, handed: HandIn, old: str, tree: str) -> Release:
        """It waits for a look once more, as what would land now."""
        commit = self.git.commit(tree, [old], _message(claim.task))
        files, added, removed = size(self.files.changes(old, commit))
        self._rebase(claim.task.id, handed.target, old, tree)
        self.git.set(self.ref("cand", claim.task.id), commit)
        now = handed.replace(commit=commit, base=old, tree=tree, approved="", green=False)
        now = self.note(handed, now.replace(files=files, added=added, removed=removed))
        return held(
            claim.task, now, why=f"it was approved, but with what landed on {handed.target} since it is another"
        )

    def take_fence(self, claim: Claim) -> tuple[str, str]:
        """The fence is this claim's: its last holder, and any git that left running, can land nothing more."""
        name, mine = self.ref("fence", claim.task.id), self.git.blob(claim.fence.encode())
        self.git.set(name, mine)
        return name, mine

    def _recheck(self, handed: HandIn, commit: str, hands: Hands, old: str) -> Evidence | None:
        """What is red on exactly what would land; None if nothing is. A tree that was green is green."""
        known = handed.green and self.git.tree_of(commit) == handed.tree
        checks = [handed.check if not known else "", handed.land_check]
        for check in filter(None, checks):
            evidence = self.clones.check(handed.task, check, commit, handed, hands, old)
            if not evidence.green:
                return evidence
        return None

    def sealed(self, handed: HandIn, commit: str) -> Done:
        """How a task ends that this commit has landed."""
        by = f" by {handed.pr}" if handed.land == "pr" else ""
        where = f"landed on {handed.target} as {commit[:12]}{by}"
        words = f"{handed.output.rstrip()}\n\nLanded on {handed.target} as {commit}, the work of {handed.worker}."
        if left_out := frozen_edits(handed.left_out):
            words += f"\n{left_out[0].upper()}{left_out[1:]}."
            where += f"; {left_out}"
        reason = f"{handed.reason}; {where}" if handed.reason else where
        return Done(**{**brought(handed), "output": words.lstrip(), "reason": reason})

    def _conflict(self, claim: Claim, handed: HandIn, old: str, merge: Merge) -> Outcome:
        """To the same session, in its own clone: based on what landed, both sides marked in the files."""
        listed = ", ".join(merge.conflicts[:50])
        message = (  # its last line is what people see of it
            f"Your clone now begins from {handed.target} at {old[:12]}, with your changes merged in. In the files "
            f"named below both sides stand between <<<<<<< ({handed.target}) and >>>>>>> (yours): keep what each was "
            "meant to do, and remove the marks. A file without marks was removed by one side, or is no text.\n"
            f"The work conflicts with what has landed on {handed.target} meanwhile, in: {listed}"
        )
        self._rebase(claim.task.id, handed.target, old, merge.tree)
        return Failed(error=message, kind="conflict", output=handed.output)

    def _came_red(self, claim: Claim, handed: HandIn, evidence: Evidence, old: str) -> Outcome:
        """To the same session: on what landed meanwhile its work is red."""
        place = handed.target
        if handed.land == "merge":
            place += f" (your clone now begins from that, at {old[:12]}, with your changes merged in)"
            landing = self.git.ref(self.ref("land", handed.seals))
            self._rebase(claim.task.id, handed.target, old, self.git.tree_of(landing))
        error = evidence.complaint(f" on what would land on {place}")
        return Failed(error=error, kind="check", output=handed.output, evidence=evidence)

    def _rebase(self, task_id: str, target: str, base: str, tree: str) -> None:
        """The task's clone begins from `base` and has the files of `tree`. The base is noted last: files of an older
        base under a newer one would undo what landed between them.
        """
        was = self.git.ref(self.ref("cand", task_id)) or base
        self.clones.rebase(task_id, target, base, was, tree)
        self.git.set(self.ref("base", task_id), base)

    # -- 12, 13: afterwards --------------------------------------------------------------------------

    def publish(self, branch: str = "") -> list[str]:
        """The person's branches have what landed on them; what is in the way, as sentences."""
        if not self.repository.is_known():
            return []
        self.ready()
        branches = [branch] if branch else self.repository.unpublished()
        lines = [self.repository.publish(name).sentence() for name in branches]
        return [line for line in lines if line]

    def clean(self, task_id: str) -> None:
        """What only working on it needed is gone; the candidate is kept."""
        self.clones.remove(task_id)
        self.git.drop(*(self.ref(what, task_id) for what in ("base", "fence", "hand", "pushed", "seen")))

    def candidates(self, before: float) -> list[str]:
        """The tasks whose candidates were made before this time."""
        prefix = f"refs/pit/cand/{self.queue}/"
        lines = self.git.say("for-each-ref", "--format=%(committerdate:unix) %(refname)", prefix).splitlines()
        found = [(int(when), name.removeprefix(prefix)) for when, _, name in (line.partition(" ") for line in lines)]
        return [name.replace("=", ".") for when, name in found if when < before]

    def prune(self, task_ids: Sequence[str]) -> None:
        """What is kept of these tasks, which are over and which nothing needs, is gone."""
        self.repository.prune(*(self.ref(what, one) for one in task_ids for what in ("cand", "land")))

    def forget(self, task_id: str, *, approval: bool = False) -> None:
        """It went back to its agent: what was handed in is none any more, nor is an approval. Its clone stays."""
        self.git.drop(*(self.ref(what, task_id) for what in ("hand", "seen")[: 1 + approval]))


def _is_landing_of(landing: Ref, handed: HandIn) -> bool:
    """Whether this commit lands just that. It may be the branch's own last one, where nothing was left to change; or
    that of another task so called, in a queue that was in the same place before.
    """
    if handed.land == "pr":  # the forge made it
        return bool(landing.oid and handed.pr)
    return landing.oid == handed.commit or f"\nCandidate: {handed.commit}\n".encode() in landing.data


def _few(questions: Sequence[str]) -> tuple[str, ...]:
    """What a person can take in at a glance: an agent may have left a hundred thousand keys."""
    few = tuple(one if len(one) <= LONGEST_QUESTION else f"…{one[-LONGEST_QUESTION:]}" for one in questions[:QUESTIONS])
    left = len(questions) - len(few)
    return (*few, f"and {left} more") if left else few


def _message(task: Task) -> str:
    title = " ".join(task.title.split())[:200]
    return f"{title}\n\nTask: {task.id}\n"


def queue_key(queue: Queue) -> str:
    """What tells this queue from others on this machine."""
    info = queue.store.info()
    return os.path.realpath(info.papers) if info.papers else info.where

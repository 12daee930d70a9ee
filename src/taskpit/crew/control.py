"""Changing the plan: who should be up, who down, who started again; and waiting until it is so.

The caller needs nothing but the queue's folder: the supervisor is found, or started. Talks to nobody.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from taskpit.crew.state import SUPERVISOR, Crew, CrewFiles, MemberPlan, Post
from taskpit.errors import NotFound, Storage, Untrusted
from taskpit.text import nearest

#: How often the files are looked at while waiting.
LOOK = 0.05
#: How long those who start may take to be there.
PATIENCE = 60.0
#: How often it is said what is waited for.
TELL_EVERY = 5.0


def choose(known: Iterable[str], asked: Sequence[str]) -> list[str]:
    """The names that are meant: all if none is asked for; `snake` means snake-1, snake-2, ..."""
    names = list(known)
    chosen: list[str] = []
    for word in asked:
        found = [name for name in names if name == word or re.fullmatch(rf"{re.escape(word)}-\d+", name)]
        if not found:
            near = nearest(word, names)
            hint = f"Did you mean {near!r}?" if near else f"There are: {', '.join(names) or 'none'}."
            raise NotFound(f"no member of the crew is called {word!r}", hint=hint, name=word)
        chosen += [name for name in found if name not in chosen]
    return chosen if asked else names


class CrewControl:
    """Hands the wishes of one caller to the supervisor."""

    def __init__(self, files: CrewFiles, env: Mapping[str, str]) -> None:
        self.files = files
        self.env = env

    def up(self, crew: Crew, asked: Sequence[str]) -> tuple[dict[str, MemberPlan], list[str]]:
        """These are wanted. Their wishes, and who of them runs with older settings."""
        posts = {post.name: post for post in crew.posts}
        chosen = choose(posts, asked)
        with self.files.plan_lock():
            plan = self._plan()
            older = [name for name in chosen if name in plan and plan[name].wanted and self._is_older(posts[name])]
            fresh = {name: self._wish(plan.get(name), post, wanted=name in chosen) for name, post in posts.items()}
            for name, wish in plan.items():  # who is no longer in the file ends, once all of the file is asked for
                if name not in fresh and (self.files.living(name) or wish.wanted):
                    fresh[name] = wish if asked else wish.replace(wanted=False)
            self.files.save_plan(fresh)
            self.files.ensure_supervisor(self.env)
        return {name: fresh[name] for name in chosen}, older

    def _is_older(self, post: Post) -> bool:
        """Whether it lives, and was started with other settings."""
        return self.files.seen(post.name).post != post.digest and bool(self.files.living(post.name))

    def _plan(self) -> dict[str, MemberPlan]:
        """The plan as this user's processes have written it, not as another hand did; who lives without it ends."""
        self.files.refuse_other_users()
        try:
            plan = self.files.plan()
        except (Untrusted, Storage):
            plan = {}
        for name in self.files.strays(plan):
            plan[name] = MemberPlan(post=Post(name=name, kind="service"), wanted=False, turn=self.files.seen(name).turn)
        return plan

    def _wish(self, old: MemberPlan | None, post: Post, *, wanted: bool) -> MemberPlan:
        """What the plan says of it from now on."""
        name = post.name
        seen = self.files.seen(name)
        turn = max(old.turn if old else 0, seen.turn)
        if not wanted:
            return old.replace(post=post) if old else MemberPlan(post=post, wanted=False, turn=turn)
        if old is not None and old.wanted and self._is_well(old):
            return old.replace(post=post)
        return MemberPlan(post=post, turn=turn + 1)

    def _is_well(self, wish: MemberPlan) -> bool:
        """Whether it needs no new start: it lives, waits as it said it would, or is just being started."""
        seen = self.files.seen(wish.post.name)
        starting = wish.turn > seen.turn or seen.state == "up"
        if self.files.living(wish.post.name) or seen.state == "waiting":
            return True
        return starting and bool(self.files.living(SUPERVISOR))

    def down(self, asked: Sequence[str], *, now: bool) -> list[str]:
        """These are not wanted any more; those of them that still live."""
        with self.files.plan_lock():
            plan = self._plan()
            chosen = choose(plan, asked)
            living = [name for name in chosen if self.files.living(name)]
            for name in chosen:
                plan[name] = plan[name].replace(wanted=False, now=now)
            self.files.save_plan(plan)
            if living:
                self.files.ensure_supervisor(self.env)
        return living

    def restart(self, crew: Crew, asked: Sequence[str], *, now: bool) -> dict[str, MemberPlan]:
        """These are started again, with what the file says now."""
        posts = {post.name: post for post in crew.posts}
        chosen = choose(posts, asked)
        with self.files.plan_lock():
            plan = self._plan()
            for name in chosen:
                turn = max(plan[name].turn if name in plan else 0, self.files.seen(name).turn)
                plan[name] = MemberPlan(post=posts[name], turn=turn + 1, now=now)
            self.files.save_plan(plan)
            self.files.ensure_supervisor(self.env)
        return {name: plan[name] for name in chosen}

    # -- waiting -----------------------------------------------------------------------------------

    def await_up(self, wishes: Mapping[str, MemberPlan], tell: Callable[[str], None] | None = None) -> dict[str, str]:
        """Until each has begun its turn; those that did not stay up, and why.

        With `tell`, what runs of an earlier turn may take its time to end, and it is told who that is.
        """
        deadline = time.monotonic() + PATIENCE
        say_at = time.monotonic() + TELL_EVERY
        while True:
            late = [name for name, wish in wishes.items() if not self._has_begun(name, wish)]
            if not late:
                break
            if tell is None and time.monotonic() > deadline:
                return {name: self._why_late(name) for name in late}
            if tell is not None and time.monotonic() > say_at:
                say_at = time.monotonic() + TELL_EVERY
                tell(self._waiting_for(late))
            time.sleep(LOOK)
        seen = {name: self.files.seen(name) for name in wishes}
        return {name: one.why for name, one in seen.items() if one.state in ("down", "stalled")}

    def _why_late(self, name: str) -> str:
        if not self.files.living(name):
            return "it was not started; `pit log supervisor` says more"
        doing = self.files.now(name).task
        return f"it was asked to stop before, and ends {doing or 'what it does'} first; then it is started"

    def _has_begun(self, name: str, wish: MemberPlan) -> bool:
        seen = self.files.seen(name)
        return seen.turn >= wish.turn and (seen.state != "up" or bool(self.files.living(name)))

    def await_down(self, names: Sequence[str], tell: Callable[[str], None]) -> None:
        """Until none of these lives, and the supervisor is gone too if nobody is left to it."""
        say_at = time.monotonic() + TELL_EVERY
        while True:
            left = [name for name in names if self.files.living(name)]
            gone = not left and not self.files.living(SUPERVISOR)
            if gone or (not left and any(wish.wanted for wish in self._plan().values())):
                return
            if time.monotonic() > say_at:
                say_at = time.monotonic() + TELL_EVERY
                tell(self._waiting_for(left))
            time.sleep(LOOK)

    def _waiting_for(self, names: Sequence[str]) -> str:
        doing = [(name, self.files.now(name).task) for name in names]
        text = ", ".join(f"{name} ({task})" if task else name for name, task in doing)
        return f"waiting for {text or 'the supervisor'}; --now does not"

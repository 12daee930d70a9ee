"""The verb that runs work: `work`. Turns its arguments into a pool and a report into a reply; runs nothing itself."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from itertools import islice

from taskpit import errors
from taskpit.cli.context import Args, Context, Reply, Usage, arg, takes
from taskpit.cli.options import a_count, a_duration, only_tags, refusal
from taskpit.clock import instant
from taskpit.explain import resuming
from taskpit.landing.pipe import LandingPipe
from taskpit.landing.values import HOW_IT_LANDS, LANDS, REVIEWS, Terms, spelled
from taskpit.model import Claim, State, Want
from taskpit.queue import cards, tally
from taskpit.rules import suits
from taskpit.run.agent_limits import Choosing
from taskpit.run.budget import BudgetLimit, parse
from taskpit.run.checkout import Checkout
from taskpit.run.pool_options import PoolOptions, PoolReport
from taskpit.run.preset import find, places, speaking
from taskpit.run.prompt import make_prompt
from taskpit.run.run_directory import RunPlaces
from taskpit.run.runner import CommandRunner, PluggedRunner, Run
from taskpit.run.sandbox import shut_in
from taskpit.status import Status

AnyRunner = CommandRunner | Choosing | PluggedRunner

#: How long a command may take unless an option says otherwise.
LIMIT = 3600.0


#: The checks of so many ready tasks are looked at before a pool begins.
LOOKED_AT = 200
#: Why a pool leaves ready tasks alone.
NONE_FITS = "none for this pool: they are big or have other tags. `pit why ID` explains."
#: Agents that alone on a line are surely meant as such.
AGENTS = ("claude", "codex", "gemini", "opencode", "copilot", "qwen", "goose", "aider")


LANDING_ARGS = (
    arg(
        "--land",
        "land changes: not at all, on a branch for each task, merged, or by pull request (with --agent in git: merge)",
        choices=LANDS,
    ),
    arg("--onto BRANCH", "the branch to start from and to land on (default: yours)", default=""),
    arg("--setup CMD", "a command that prepares each clone, such as 'npm ci'", default=""),
    arg(
        "--setup-key FILE",
        "reuse the result of --setup while this lock file is the same; may be repeated",
        action="append",
    ),
    arg("--copy FILE", "an uncommitted file that clones need, such as .env; may be repeated", action="append"),
    arg("--land-check CMD", "a second check, run on the commit that would land", default=""),
    arg("--review", "let a person or an agent review each change before it lands", choices=REVIEWS, default="none"),
    arg("--review-tag T", "let a person review the changes of tasks with this tag; may be repeated", action="append"),
    arg("--reviewer AGENT", "the agent for --review agent: a preset, or a command", default=""),
    arg("--review-limit N", "start no task while N changes wait for review", type=a_count, default=0),
    arg("--pr-command CMD", "the command that opens a pull request, if not gh or glab", default=""),
    arg("--frozen GLOB", "paths that agents cannot change, such as tests; may be repeated", action="append"),
    arg("--red-first", "ask a person about tasks whose check is green before the work"),
    arg("--worktree", "the same as --land branch"),
    arg("--merge", "--worktree --merge ff: the same as --land merge", choices=("none", "ff"), default="none"),
)


def _budget(text: str) -> BudgetLimit:
    try:
        return parse(text)
    except errors.Invalid as error:
        raise refusal(f"{error.message}. {error.hint}") from None


@takes(
    arg("-n N", "the number of tasks at once (default 1)", dest="slots", type=a_count, default=1),
    arg("--agent PRESET,...", "the agent to run; several: the next one when a quota is spent"),
    arg("--model M", "the model, by the name that the agent knows", default=""),
    arg(
        "--env NAME",
        "a variable that the agent and its checks may see; a pattern such as NPM_*; may be repeated",
        action="append",
    ),
    arg(
        "--sandbox on|off",
        "run agent and check in a bubblewrap sandbox that can write only to the working folder; off: without network",
        nargs="?",
        choices=("on", "off"),
        const="on",
    ),
    arg("--tag T", "only tasks with this tag; may be repeated", action="append"),
    arg("--big", "take only big tasks, to split them"),
    arg("--until empty|T", "end when no task is left (empty), or at a time: 07:00, +8h"),
    arg("--max-tasks N", "end after N claims", type=a_count, default=0),
    arg("--limit D", "the longest time for a task (default 1h)", type=a_duration, default=LIMIT),
    arg("--lease D", "the lease of a claim; it is renewed while the task runs", type=a_duration, default=0.0),
    arg(
        "--as BASE", "name the workers BASE-1, ... (default: the name of the token, or worker)", dest="name", default=""
    ),
    arg("--no-checks", "trust exit code 0, and do not run the checks", dest="checks", action="store_false"),
    arg(
        "--budget B",
        "a limit such as $5/day, $1/task, 200k tokens/task, 2h/day; may be repeated",
        action="append",
        type=_budget,
    ),
    *LANDING_ARGS,
    arg("--allow-check GLOB", "hold tasks whose check does not match; may be repeated", action="append"),
    arg("--dry-run", "show the prompt and command for the next task, and change nothing"),
    arg("command", "the command to run for each task", metavar="-- CMD ...", nargs=argparse.REMAINDER),
    usage="pit work [-n N] [options] (-- CMD ... | --agent PRESET [-- ARGS ...] | --reviewer AGENT)",
)
def _work(args: Args, context: Context) -> Reply:
    """Run a pool of workers: each takes a task, runs CMD on it, has the task's check run, and goes on.

    In CMD, {prompt_file} is the task as one would tell it, with what failed before; {task_file} its text;
    {result_file} where CMD may write its result; {run_dir} a directory of its own, whose artifacts/ are kept with
    the task; {id} its id. CMD also has TASKPIT_TASK, TASKPIT_FILE, TASKPIT_ATTEMPT, TASKPIT_RUN_DIR, TASKPIT_DIR,
    and TASKPIT_AS, by which `pit done`, `pit fail` and `pit split` in CMD act for this claim.

    Exit 0 and a green check: done. Exit 75: tried again later, no attempt spent. Other exits: failed.
    With --agent the command is that of a preset (claude, codex, gemini, opencode, copilot, qwen, goose, aider, or
    one of your own in .taskpit/presets; a package may bring more), what follows `--` is added to it, and the agent's
    own events are believed beside its exit code. An agent that has reached a limit rests until that ends.
    In a git repository each task of an agent gets a clone of its own, and its change lands on your branch. With
    --land none agents share your files; several at once then get only tasks that declare the paths they touch.
    Ctrl-C lets running tasks finish; a second one gives them back unfinished.

    pit work -n 4 --agent claude --land merge --until 07:00
    pit work -n 4 -- my-agent --do {prompt_file}
    pit work --until empty -- sh -c 'make -C work < "$TASKPIT_FILE"'
    """
    if not args.slots:
        raise Usage("-n must be at least 1")
    if not args.dry_run:
        context.queue.need_trust()
    reviewer = _reviewer(args, context) if args.reviewer else None
    if reviewer is not None and not (args.agent or args.command or args.dry_run):
        return _run(args, context, reviewer, reviewer)
    checkout = _settle_landing(args, context)
    _need_land(args)
    runner = _runner(args, context)
    runner.check(context.env)
    if args.dry_run:
        return _dry_run(args, context, runner)
    if checkout is not None and args.land not in ("", None, "none"):
        _advise(args, context, checkout)
    return _run(args, context, runner, reviewer, shared=checkout is not None and args.land == "none")


def _settle_landing(args: Args, context: Context) -> Checkout | None:
    """Let the changes of agents land on the current branch unless an option says otherwise.

    Returns the checkout in which an agent is to work, and None for a command or outside of git.
    """
    if not args.agent or not _in_checkout(os.getcwd()):
        return None
    from taskpit.run import checkout

    found = checkout.find(os.getcwd())
    if args.worktree or args.merge != "none":
        args.land = args.land or spelled(worktree=args.worktree, merge=args.merge)
    elif found is not None and not args.land:
        if context.queue.store.info().kind == "remote":
            args.land = "none"  # what landed here would be on this machine alone
        else:
            checkout.require_landing(found, args.onto)
            args.land = "merge"
    return found


def _advise(args: Args, context: Context, checkout: Checkout) -> None:
    """Print the options that fresh clones probably need; on a terminal, ask once whether to use each."""
    from taskpit.run.checkout import advice

    ready = islice(cards(context.queue.store, State.READY), LOOKED_AT)
    checks = {card.task.check for card in ready if card.task.check}
    asks = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty() and not context.json
    for one in advice(checkout, sorted(checks), setup=args.setup, copied=args.copy or ()):
        context.tell(f"{one.why} {one.spelled()}")
        if asks and input("Use this option now? [y/N] ").strip().lower() in ("y", "yes"):
            if one.option == "setup":
                args.setup = one.value
            else:
                args.copy = [*(args.copy or ()), one.value]


def _need_land(args: Args) -> None:
    """Usage if something is said of how changes land, and not that they do: nobody would look at them."""
    names = (*HOW_IT_LANDS, "review_tag", "review_limit")
    said = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) not in (None, "", 0, "none")]
    if said and not (args.land or args.worktree):
        raise Usage(
            f"{', '.join(said)}: only with --land, because otherwise agents work in this checkout without a review",
            hint="Add `--land merge`, or `--land none` if only tasks with a `land` field need it.",
        )


def _runner(args: Args, context: Context) -> AnyRunner:
    """The agent that was named, or the command that was given."""
    argv = args.command[1:] if args.command[:1] == ["--"] else args.command
    if args.agent and args.command and args.command[0] != "--":
        raise Usage(
            f"{shlex.join(args.command[:3])}: words for the agent follow `--`",
            hint="A pattern such as 'tests/**' needs quotes, or the shell replaces it by the files that it fits.",
        )
    if args.agent:
        return _agents(args.agent, args.model, args, context, argv)
    if not argv:
        hint = "`pit work --help` shows examples."
        raise Usage("name a command or an agent: pit work -- CMD ..., or pit work --agent PRESET", hint=hint)
    if len(argv) == 1 and argv[0] in AGENTS:
        raise Usage(
            f"{argv[0]} is an agent, not a command for a task",
            hint=f"`pit work --agent {argv[0]} --land merge` runs it.",
        )
    if args.model:
        raise Usage("--model needs --agent; for a command, put the model into CMD")
    if args.env:
        raise Usage("--env needs --agent; a command sees the whole environment")
    return CommandRunner(argv, cwd=os.getcwd(), limit=args.limit)


def _reviewer(args: Args, context: Context) -> AnyRunner:
    """Who judges changes: an agent as `claude` or `claude:opus`, or a command, which has more than one word."""
    try:
        words_ = shlex.split(args.reviewer)
    except ValueError as error:
        raise Usage(f"--reviewer {args.reviewer!r} cannot be read: {error}") from None
    agent, _, model = args.reviewer.partition(":")
    if len(words_) > 1 or "/" in agent:
        runner: AnyRunner = CommandRunner(words_, cwd=os.getcwd(), limit=args.limit)
    else:
        runner = _agents(agent, model, args, context, [])
    runner.check(context.env)
    return runner


def _agents(agent: str, model: str, args: Args, context: Context, argv: list[str]) -> AnyRunner:
    """The agents that were named, the first one first; one that a package brings, if there is no such preset."""
    from taskpit.run.agent_runner import AgentRunner

    names = [agent] if agent.startswith("acp:") else [name for name in agent.split(",") if name]
    if not names:
        raise Usage("--agent names a preset, or several: --agent claude,codex")
    root, clock = context.queue.store.info().papers, context.queue.clock

    def make(name: str, own: str) -> AgentRunner:
        folders = places(root, context.env)
        return AgentRunner(
            speaking(name.removeprefix("acp:"), folders) if name.startswith("acp:") else find(name, folders),
            cwd=os.getcwd(),
            model=own or model,
            limit=args.limit,
            extra=argv,
            env=tuple(args.env or ()),
            clock=clock,
        )

    try:
        return Choosing(names, make, root=root, clock=clock, budget=args.budget or ())
    except errors.NotFound:
        from taskpit.run.runner import find_plugged

        brought = find_plugged(agent, cwd=os.getcwd(), model=model, limit=args.limit, args=argv)
        if brought is None:
            raise
        return brought


def _run(args: Args, context: Context, runner: AnyRunner, reviewer: AnyRunner | None, *, shared: bool = False) -> Reply:
    """Run a pool; one whose runner is its reviewer only judges. `shared`: its agents work in one checkout."""
    from taskpit.run import pool_display
    from taskpit.run.pool import Pool

    landing = _landing(args, context, os.getcwd())
    if reviewer is not None and landing is None:
        raise errors.Invalid(
            f"{os.getcwd()} is not in a git checkout, so there is nothing to review", hint="Run it in your repository."
        )
    options = PoolOptions(
        slots=args.slots if runner is not reviewer else 0,
        name=args.name or context.token_name() or "worker",
        tags=only_tags(args.tag),
        big=args.big,
        lease=args.lease,
        max_tasks=args.max_tasks,
        until_empty=args.until == "empty",
        until=_until(args.until, context),
        allow_checks=tuple(args.allow_check or ()),
        check_in=os.getcwd() if args.checks else None,
        budget=tuple(args.budget or ()),
        sandbox=shut_in(None, args.sandbox),
        red_first=args.red_first,
        review_limit=args.review_limit,
        declared_only=shared and args.slots > 1,
        landing=landing,
        env=_seen_by_checks(args),
    )
    out = sys.stderr if context.json else sys.stdout
    drawn = pool_display.is_drawn(out, context.env)
    show = pool_display.PoolBoard(out, context.env) if drawn else pool_display.Lines(out)
    try:
        report = Pool(context.queue, runner, options, show, reviewer).run()
    finally:
        show.close()
    if report.error is not None:
        context.tell(pool_display.summary(report))
        raise report.error
    return Reply(
        data={"ended": report.tally, "seconds": round(report.seconds, 3), "signal": report.signal},
        text=lambda: pool_display.summary(report) + _left(report, context),
        exit_code=128 + report.signal if report.signal else 0,
    )


def _left(report: PoolReport, context: Context) -> str:
    """What needs a person; a pool that did nothing also says what is left, and where to look."""
    store = context.queue.store
    there = store.counts()
    counts = tally(store, {state: () for state in (State.READY, State.FAILED) if not there[state]})
    lines = [""]
    if report.tally:
        counts = {Status.NEEDS_YOU: counts[Status.NEEDS_YOU], Status.READY: 0, Status.WAITING: 0}
    if (ready := counts[Status.READY]) and not report.started:
        paused = store.paused()
        why = f"the queue is {paused}. {resuming(paused)}".rstrip() if paused else NONE_FITS
        lines.append(f"{ready} ready, but {why}")
    if asking := counts[Status.NEEDS_YOU]:
        lines.append(f"{asking} {'needs' if asking == 1 else 'need'} you: `pit status` says what for.")
    if waiting := counts[Status.WAITING]:
        lines.append(f"{waiting} waiting: `pit list` says what for.")
    return "\n".join(lines)


def _until(text: str | None, context: Context) -> float:
    """Unix seconds of `07:00` (the next one here), `+8h` or a date; 0 for none."""
    if text in (None, "empty"):
        return 0.0

    now = context.queue.clock.now()
    hour, colon, minute = str(text).partition(":")
    if colon and hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60:
        here = time.localtime(now)
        today = time.mktime((*here[:3], int(hour), int(minute), 0, 0, 0, -1))
        return today if today > now else time.mktime((*here[:2], here[2] + 1, int(hour), int(minute), 0, 0, 0, -1))
    try:
        when = instant(str(text), now)
    except ValueError:
        raise Usage(f"--until {text!r} is neither `empty` nor a time", hint="Write empty, 07:00 or +8h.") from None
    if when < now:
        raise Usage(
            f"--until {text} is in the past", hint="Write a future time (07:00 is the next one, +8h), or empty."
        )
    return when


def _seen_by_checks(args: Args) -> tuple[str, ...]:
    """Patterns of what checks may see: after an agent no more than it was to see, else all that we see."""
    return tuple(args.env or ()) if args.agent else ("*",)


def _landing(args: Args, context: Context, cwd: str) -> LandingPipe | None:
    land = args.land or spelled(worktree=args.worktree, merge=args.merge)
    if land == "none" and not _in_checkout(cwd):
        return None
    from taskpit.run.landing_thread import pipe_for

    own = {name: one for name, one in vars(args).items() if name in Terms.__struct_fields__ and one}
    own = {name: tuple(one) if isinstance(one, list) else one for name, one in own.items()}
    terms = Terms(
        **{**own, "land": land, "review_tags": only_tags(args.review_tag, "--review-tag"), "env": _seen_by_checks(args)}
    )
    return pipe_for(context.queue, cwd, terms)


def _in_checkout(cwd: str) -> bool:
    """Whether git could find a checkout there: most of what landing takes is not loaded where it cannot."""
    while not os.path.lexists(os.path.join(cwd, ".git")):
        above = os.path.dirname(cwd)
        if above == cwd:
            return False
        cwd = above
    return True


def _dry_run(args: Args, context: Context, runner: AnyRunner) -> Reply:
    """The prompt of the next task, and the command as it would be run."""
    claim = _next(context, only_tags(args.tag), args.name or context.token_name() or "worker", big=args.big)
    queue = context.queue
    info = queue.store.info()
    run = Run(claim, RunPlaces(queue.store).of(claim), info.papers or info.where)
    try:
        argv = runner.command(run, "(the prompt)")
        prompt = make_prompt(claim, queue.card(claim.task.id).tries, run.place.result)
    finally:
        run.bell.close()
    data = {"id": claim.task.id, "argv": argv, "prompt": prompt, "check": claim.task.check, "limit": args.limit}

    def text() -> str:
        return f"{prompt}\n---\nwould run for {claim.task.id}: {shlex.join(argv)}"

    return Reply(data=data, text=text)


def _next(context: Context, tags: tuple[str, ...], name: str, *, big: bool) -> Claim:
    """The claim a worker would get now."""
    want = Want(worker=f"{name}-1", lease=0.0, tags=tags, big=big)
    for card in cards(context.queue.store, State.READY):
        task = card.task
        if not card.held and suits(task, want):
            fence = f"{want.worker}~dryrun"
            return Claim(task=task, worker=want.worker, fence=fence, attempt=task.attempts + 1)
    raise errors.Nothing(hint="`pit list` shows what waits, and why.")

"""What hot verbs load: the time before a command does anything is paid by every claim of every worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Of the standard library, hot verbs may load these beyond what Python itself loads.
ALLOWED = """
    __future__ _bisect _collections _datetime _functools _json _locale _operator _sre _struct _types argparse binascii
    bisect collections collections.abc copyreg datetime encodings.ascii enum errno fcntl functools gc gettext
    importlib importlib._bootstrap importlib._bootstrap_external itertools json json.decoder json.encoder json.scanner
    keyword locale math operator re re._casefix re._compiler re._constants re._parser reprlib select struct types
    warnings
"""
#: Only where the kernel's no-replace rename is used.
RENAME = "_ctypes"

SETUP = "import sys; before = set(sys.modules)\n"
RUN = """
from taskpit.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(*sorted(set(sys.modules) - before), file=sys.stderr)
sys.exit(code)
"""


def loaded(*words):
    answer = subprocess.run(
        [sys.executable, "-c", SETUP + RUN, *words, "--json"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return {name for name in answer.stderr.split() if name.partition(".")[0] != "taskpit"}, answer.stderr.split()


@pytest.mark.parametrize(
    ("words", "needs_rename"),
    [
        (["add", "x", "--needs", "1", "--check", "true"], True),
        (["claim"], False),
        (["renew", "1"], False),
        (["done", "1"], True),
        (["fail", "1", "--error", "no"], True),
        (["release", "1"], True),
        (["list"], False),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_hot_verbs_load_next_to_nothing(pit, words, needs_rename):
    pit("add", "x", "--priority", "3")
    if words[0] not in ("add", "claim", "list"):
        pit("claim", "1")
    names, _ = loaded(*words)

    allowed = f"{ALLOWED} {RENAME}" if needs_rename else ALLOWED
    assert names - set(allowed.split()) == set()


@pytest.mark.parametrize("words", [["add", "y"], ["claim"], ["renew", "1"], ["done", "1"], ["release", "1"]])
def test_hot_verbs_need_no_regular_expressions(pit, words):
    """They, and the json package and the parser that bring them, cost as much as all the rest of a claim."""
    pit("add", "x")
    if words[0] not in ("add", "claim"):
        pit("claim", "1")
    assert not {"json", "re", "enum", "argparse", "importlib", "warnings"} & loaded(*words)[0]


def test_a_check_is_run_without_a_new_interpreter(pit):
    """`subprocess` and `tempfile` bring forty modules, and a second Python another hundred looks at files."""
    pit("add", "x", "--check", "true")
    pit("claim", "1")
    names, _ = loaded("done", "1")
    assert not {"subprocess", "tempfile", "contextlib", "threading", "select"} & names


def test_a_list_that_is_cut_off_and_counted_watches_nothing(pit, tmp_path):
    source = tmp_path / "many.jsonl"
    source.write_text("".join(f'{{"title": "t {number}"}}\n' for number in range(60)), encoding="utf-8")
    pit("import", str(source))
    answer = subprocess.run([sys.executable, "-c", SETUP + RUN, "list"], capture_output=True, text=True, check=False)
    assert "60 ready" in answer.stdout
    assert not {"_ctypes", "taskpit.watch"} & set(answer.stderr.split())


COLLECTED = """
import atexit, gc
atexit.register(int)  # there is somebody to be told: the interpreter is taken down
from taskpit.cli.main import main
gc.callbacks.append(lambda phase, told: print("collected", file=sys.stderr))
code = main()
gc.callbacks.clear()
if len(gc.get_objects()) > 100:
    print("left to be looked at when Python ends", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("words", [["add", "y"], ["claim", "1"], ["list"]], ids=lambda words: words[0])
def test_a_command_looks_for_no_garbage(pit, words):
    """What it loads is no garbage, and goes with the process: a tenth of a claim's instructions were spent on that."""
    pit("add", "x")
    answer = subprocess.run(
        [sys.executable, "-c", SETUP + COLLECTED, *words], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


TAKEN_DOWN = """
class Loud:
    def __del__(self):
        sys.stdout.write("taken down")
one = Loud()
from taskpit.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("words", [["add", "y"], ["claim", "1"], ["claim", "99"]], ids=" ".join)
def test_a_command_ends_without_taking_the_interpreter_down(pit, words):
    """That takes as long as a claim; all it has said is said before."""
    pit("add", "x")
    run = [sys.executable, "-c", SETUP + TAKEN_DOWN, *words]
    answer = subprocess.run(run, capture_output=True, text=True, check=False)
    assert answer.returncode == (5 if words[1] == "99" else 0)
    assert answer.stdout or answer.stderr
    assert "taken down" not in answer.stdout


def test_a_reader_that_has_gone_away_is_noticed_at_the_end(pit):
    pit("add", "x")
    run = [sys.executable, "-m", "taskpit", "list"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as listing:
        listing.stdout.close()
        assert listing.wait() in (120, 141)


OPENED = """
import atexit, os
atexit.register(int)
held, real = {}, os.open
def opening(path, flags, *more, **kinds):
    fd = real(path, flags, *more, **kinds)
    if flags & os.O_DIRECTORY:
        print(path, file=sys.stderr)
        held[fd] = path
    return fd
os.open = opening
from taskpit.cli.main import main
main()
for fd in held:
    os.fstat(fd)
"""


def test_a_command_opens_each_directory_once_and_leaves_the_closing_to_the_kernel(pit):
    """The queue was opened for the layout, again for the settings and once more for the store."""
    pit("add", "x")
    words = [sys.executable, "-c", SETUP + OPENED, "claim"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    names = answer.stderr.split()
    assert ".taskpit" in names
    assert len(names) == len(set(names))


def test_a_claim_among_many_loads_a_database_and_nothing_around_it(pit, tmp_path):
    """What stands in for `functools` meanwhile is gone afterwards, and the real one can be had."""
    source = tmp_path / "many.jsonl"
    source.write_text("".join(f'{{"title": "t {number}"}}\n' for number in range(80)), encoding="utf-8")
    pit("import", str(source))
    pit("claim")  # builds the catalogue
    names = loaded("claim")[0]
    assert "_sqlite3" in names
    assert not {"sqlite3", "functools", "collections", "json", "re", "enum"} & names
    after = "import functools\nfunctools.lru_cache(maxsize=3)(print).cache_info().maxsize == 3 or sys.exit(9)\n"
    told = RUN.replace("sys.stdout.flush()\n", f"sys.stdout.flush()\n{after}")
    answer = subprocess.run([sys.executable, "-c", SETUP + told, "claim"], capture_output=True, text=True, check=False)
    assert (answer.returncode, "_sqlite3" in answer.stderr.split()) == (0, True)


def test_who_names_a_task_chooses_among_none(pit):
    pit("add", "x")
    assert not {"taskpit.store.index", "taskpit.listing", "bisect"} & set(loaded("claim", "1")[1])


def test_only_the_module_of_the_verb_is_loaded(pit):
    pit("add", "x")
    _, names = loaded("claim")
    rooms = {name for name in names if name.startswith("taskpit.")}

    assert {name for name in rooms if name.startswith("taskpit.cli.")} == {
        f"taskpit.cli.{name}" for name in ("claim", "context", "fast_parser", "main", "options", "output", "verbs")
    }
    assert not {name for name in rooms if name.startswith(("taskpit.worker.", "taskpit.keeper", "taskpit.testing"))}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (
            ["-n", "2", "--until", "empty", "--", "true", "-x", "--json"],
            {"slots": 2, "command": ["true", "-x", "--json"]},
        ),
        (["--no-checks", "--tag", "a", "--tag", "b", "--", "sh"], {"checks": False, "tag": ["a", "b"]}),
        (["--big", "--"], {"big": True, "command": []}),
    ],
)
def test_a_command_after_two_dashes_is_read_as_argparse_reads_it(words, wanted):
    from taskpit.cli import fast_parser, parser, verbs

    verb = verbs.find("work")
    plain = vars(fast_parser.read_plain(verbs.handler(verb), words))
    assert {name: plain[name] for name in wanted} == wanted
    whole = vars(parser.read(verb, words))
    if whole["command"][:1] == ["--"]:
        whole["command"] = whole["command"][1:]
    assert {name: plain[name] for name in whole} == whole


@pytest.mark.parametrize(
    "words", [["-n", "2"], ["true"], ["--agent", "claude", "more", "--", "x"], ["--sandbox", "--", "x"]]
)
def test_what_argparse_must_read_is_left_to_it(words):
    from taskpit.cli import fast_parser, verbs

    with pytest.raises(fast_parser.NotPlain):
        fast_parser.read_plain(verbs.handler(verbs.find("work")), words)

"""Random hostile files through every consumer, in all four layouts: no crash, no hang, nothing outside touched or told.

Files of a queue that was lived in are spoilt (words replaced, cut, doubled, stuffed), moved to places where others
are read, and called names that lead elsewhere. `TASKPIT_HOSTILE=10000` consumers are run in all by `make test-all`,
each time on other files: a failure names its seed, and `TASKPIT_HOSTILE_SEED` makes the same files again.
"""

from __future__ import annotations

import json
import os
import random
import re
import traceback

import pytest
from hostility import CONSUMERS, LAYOUTS, OURS, SLOW, Yard
from monsters import BITS, PUNGENT, Late

from taskpit.store import index

#: How many times a consumer is run, in all layouts together.
RUNS = int(os.environ.get("TASKPIT_HOSTILE", "320"))
#: Whatever stands here makes other files of it: the same ones in `make test`, others in every long run.
SEED = os.environ.get("TASKPIT_HOSTILE_SEED", "" if RUNS < 1000 else f" {random.randrange(10**6)}")
QUICK = [words for words in CONSUMERS if words not in SLOW]
_WORD = re.compile(rb'"[^"\n]*"|[-\w.:+]+')
#: Values that lead elsewhere, or are of the wrong kind.
LEADS = (
    *(
        b'"../../../outside/new"',
        b'"../outside/food-0077-x.md"',
        b"../../outside/x",
        b'["a", 5]',
        b"[[]]",
        b'{"a": []}',
    ),
    *(b'"/etc/passwd"', b"-1000000", b"1e400", b'"\\u001b[2J"', b"true", b'"' + b"x" * 70_000 + b'"', b"[" * 200),
)
CARRIED = b"- **carried:** json "
NAMES = (
    *("food-../x.md", "food-9-..md", "..", "x\ny.md", "food-0009-\x1b[2J.md", "a~b~c~d", "..~a~put~x", "0001~done~x"),
    *("food-" + "9" * 64 + "-x.md", "-", "~", "task_..json", "_pending.md", "x_inprogress_.md", "WI-1-A1.lock", ".x"),
)


def spoil(chance, data):
    """The bytes, spoilt in one to four places."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        how = chance.choice(("word", "word", "insert", "cut", "end", "double", "carried"))
        words = list(_WORD.finditer(data))
        if how == "word" and words:
            found = chance.choice(words)
            data = data[: found.start()] + chance.choice((*LEADS, *PUNGENT)) + data[found.end() :]
        elif how == "insert":
            data = data[:at] + chance.choice(BITS) + data[at:]
        elif how == "cut":
            data = data[:at] + data[at + chance.randint(1, 9) :]
        elif how == "end":
            data = data[:at]
        elif how == "double":
            data = data[:at] + data[at : at + 300] + data[at:]
        elif how == "carried":
            field = chance.choice(
                (
                    "every",
                    "hold",
                    "racers",
                    "candidate",
                    "id",
                    "slug",
                    "check",
                    "needs",
                    "title",
                    "created",
                    "extra",
                    "tags",
                    "source",
                )
            )
            value = json.loads(chance.choice((b'"../../../outside/new"', b'["a", 5]', b"-1", b"{}", b"[[]]")))
            pair = json.dumps({"task": {field: [chance.choice(("", [], 0, "0001")), value]}}).encode()
            data = data.replace(b"\n", b"\n" + CARRIED + pair + b"\n", 1)
    return data


def attack(chance, yard, files):
    """A few hostile files in a fresh queue; what they are."""
    yard.fresh()
    told = []
    for _ in range(chance.randint(1, 4)):
        source = chance.choice(files)
        with open(os.path.join(yard.pristine, source), "rb") as file:
            data = spoil(chance, file.read())
        target = source
        if chance.random() < 0.3:
            place = chance.choice((*(f".taskpit/{one}" for one in OURS), os.path.dirname(source) or "."))
            target = f"{place}/{chance.choice((*NAMES, os.path.basename(source)))}"
        path = os.path.join(yard.root, target)
        if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
            continue
        with open(path, "wb") as file:
            file.write(data)
        os.utime(path, (1, 1))
        told.append((target, data[:300]))
    return told


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_file_makes_us_do_what_nobody_asked(layout, part, tmp_path, monkeypatch):
    if part % 2:
        monkeypatch.setattr(index, "SMALL", 1)  # as a large queue has it: with a catalogue
    yard = Yard(tmp_path, layout)
    files = [name for name in yard.files() if os.path.isfile(os.path.join(yard.pristine, name))]
    failed = []
    for number in range(-(-RUNS // 64)):
        seed = f"{layout} {part} {number}{SEED}"
        chance = random.Random(seed)
        told = attack(chance, yard, files)
        consumers = [*chance.sample(QUICK, 3), chance.choice(SLOW if number % 8 == 7 else QUICK)]
        try:
            for words in consumers:
                yard.run(words)
            yard.judge(seed)
        except (Exception, Late):
            failed.append(seed)
            print(f"TASKPIT_HOSTILE_SEED={SEED!r}: {seed!r}, consumers {consumers}: {told}\n{traceback.format_exc()}")
            yard.reset()
    assert not failed


def test_the_generator_reaches_what_it_should():
    """Or it would only try how well nothing happens."""
    chance = random.Random(1)
    seed = b'# food-0001-x\n- **task:** x\n- **priority:** 5\n{"id": "x", "needs": []}\n'
    spoilt = [spoil(chance, seed) for _ in range(400)]
    for sign in (CARRIED, b"../../../outside/new", b"1e400", b'["a", 5]'):
        assert any(sign in data for data in spoilt), sign

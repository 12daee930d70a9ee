"""The food of the demo: two dozen small tasks, one huge, one big, one that chokes, one that is wrong at first. Pure."""

from __future__ import annotations

import random

from taskpit.task import Task

__all__ = ["sign", "tasks"]

WORDS = ["python", "anaconda", "viper", "cobra", "mamba", "adder", "boa", "taipan", "krait", "rattler"]
FOOD = ["mouse", "egg", "frog", "cricket", "vole", "lizard", "gecko", "toad", "newt", "rat"]


def tasks(seed: int) -> list[Task]:
    """Two dozen small tasks and what some of them need."""
    dice = random.Random(seed)  # noqa: S311 - the demo is meant to repeat itself
    found = [_elephant(), *_haiku_diary_feast()]
    found += [_small("reverse", f"Reverse the word {word}", word[::-1]) for word in dice.sample(WORDS, 6)]
    for _ in range(4):
        words = dice.sample(FOOD, 3)
        letters = sum(map(len, words))
        found.append(_small("count", f"Count the letters of: {' '.join(words)}", str(letters)))
    for _ in range(4):
        numbers = [dice.randrange(2, 100) for _ in range(4)]
        found.append(_small("sum", f"Add up {' '.join(map(str, numbers))}", str(sum(numbers))))
    for _ in range(3):
        words = dice.sample(FOOD, 4)
        found.append(_small("sort", f"Sort: {' '.join(words)}", " ".join(sorted(words))))
    for top in dice.sample(range(20, 60), 2):
        primes = " ".join(str(n) for n in range(2, top) if all(n % d for d in range(2, n)))
        found.append(_small("primes", f"List the primes below {top}", primes))
    numbered = [task.replace(id=f"{number:04d}") for number, task in enumerate(found, 1)]
    numbered = [
        task.replace(body=task.body.replace("%", task.id), check=task.check.replace("%", task.id)) for task in numbered
    ]
    return [*numbered, *_joins(numbered)]


def sign(number: int) -> Task:
    """The one whose change is reviewed, and lands on the branch of a repository."""
    fields = {"land": "merge", "review": "agent"}
    return Task(
        id=f"{number:04d}",
        title="Paint a sign for the door",
        body="Visitors should knock. Write it to `sign.txt`.",
        check="grep -qi knock sign.txt",
        priority=4,
        extra=fields,
    )


def _small(kind: str, title: str, answer: str) -> Task:
    path = f"out/{kind}-%.txt"
    return Task(
        id="", title=title, body=f"Write the answer to `{path}`.", check=f"grep -qx '{answer}' {path}", tags=(kind,)
    )


def _elephant() -> Task:
    body = "Chew well. When it is gone, say so to `out/elephant.txt`."
    return Task(
        id="", title="Digest the elephant", body=body, check="test -s out/elephant.txt", priority=9, tags=("huge",)
    )


def _haiku_diary_feast() -> list[Task]:
    lines = "$(wc -l < out/haiku.txt)"
    proof = f'test {lines} -eq 3 || {{ echo "a haiku has 3 lines, this one has {lines}"; exit 1; }}'
    return [
        Task(id="", title="Write a haiku about this pit", body="Write it to `out/haiku.txt`.", check=proof, priority=5),
        Task(id="", title="Read the diary of the mouse", body="Tell me what is in it.", priority=5),
        Task(id="", title="Prepare the feast", body="For everybody, and in style.", priority=3, big=True),
    ]


def _joins(before: list[Task]) -> list[Task]:
    """Tasks that need others."""
    sorts = [task.id for task in before if task.title.startswith("Sort")]
    paths = "\n".join(f"- out/sort-{need}.txt" for need in sorts)
    menu = Task(
        id=f"{len(before) + 1:04d}",
        title="Write the menu",
        body=f"Put these together, one below the other, and write that to `out/menu.txt`:\n\n{paths}",
        check=f"test $(wc -l < out/menu.txt) -eq {len(sorts)}",
        needs=tuple(sorts),
        priority=2,
    )
    diary = Task(
        id=f"{len(before) + 2:04d}",
        title="Write the story of the day",
        body="Put these together and write that to `out/story.txt`:\n\n"
        "- out/menu.txt\n- out/haiku.txt\n- out/elephant.txt",
        check="grep -q elephant out/story.txt",
        needs=(menu.id, before[0].id, before[1].id),
        priority=-1,
    )
    return [menu, diary]

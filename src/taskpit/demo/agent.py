"""The demo's agent: reads its prompt and does what it says. Needs no model, no network and nothing of taskpit.

    demo_agent.py PROMPT_FILE RESULT_FILE

It plays its part like a real one: it writes files, prints what it does, learns from a red check when the
prompt tells of one, splits what is too large with `pit split`, and fails when it cannot do a thing.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time

#: How long a bite of something large takes, in seconds.
BITE = 0.12
#: Everything takes this many times as long.
PACE = float(os.environ.get("DEMO_PACE", "1"))


def main() -> int:
    """Do one task; 0 if it worked."""
    prompt_file, result_file = sys.argv[1:3]
    with open(prompt_file, encoding="utf-8") as file:
        prompt = file.read()
    title = _title(prompt)
    dice = random.Random(f"{os.environ.get('DEMO_SEED')} {title}")  # noqa: S311 - the demo is meant to repeat itself
    print("let me see", flush=True)
    for words, act in ACTS.items():
        if title.startswith(words):
            time.sleep(dice.uniform(0.2, 0.9) * PACE)
            answer = act(title, prompt)
            break
    else:
        print(f"I don't know how to: {title}")
        return 1
    if answer is None:
        return 1
    with open(result_file, "w", encoding="utf-8") as file:
        file.write(answer + "\n")
    if act is not _keep:
        print("there you are", flush=True)
    return 0


def _title(prompt: str) -> str:
    """What is asked: the first heading that is a thing we can do; before it stands what we are told to be."""
    headings = [line.removeprefix("# ") for line in prompt.splitlines() if line.startswith("# ")]
    return next((one for one in headings if one.startswith(tuple(ACTS))), headings[0] if headings else "nothing")


def _write(prompt: str, text: str) -> str:
    """Into the file the task names."""
    found = re.search(r"to `((?:(?:out|scraps)/)?[\w-]+\.\w+)`", prompt)
    if not found:
        return text
    path = found[1]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    return f"Wrote {len(text.splitlines())} line(s) to {path}:\n\n{text}"


def _reverse(title: str, prompt: str) -> str:
    return _write(prompt, title.rpartition(" ")[2][::-1])


def _count(title: str, prompt: str) -> str:
    return _write(prompt, str(sum(letter.isalpha() for letter in title.partition(": ")[2])))


def _add(title: str, prompt: str) -> str:
    return _write(prompt, str(sum(int(word) for word in re.findall(r"\d+", title))))


def _sort(title: str, prompt: str) -> str:
    return _write(prompt, " ".join(sorted(title.partition(": ")[2].split())))


def _primes(title: str, prompt: str) -> str:
    top = int(title.rpartition(" ")[2])
    return _write(prompt, " ".join(str(n) for n in range(2, top) if all(n % d for d in range(2, n))))


def _haiku(title: str, prompt: str) -> str:  # noqa: ARG001 - all acts are called alike
    lines = ["food falls from above", "the claimed one glides in silence", "done, says the green check"]
    asked = re.search(r"a haiku has (\d+) lines, this one has \d", prompt)
    if not asked:
        print("two lines will do", flush=True)
    return _write(prompt, "\n".join(lines[: int(asked[1]) if asked else 2]))


def _elephant(title: str, prompt: str) -> str:  # noqa: ARG001
    bites = 24
    for bite in range(1, bites + 1):
        print(f"bite {bite} of {bites}", flush=True)
        time.sleep(BITE * PACE)
    return _write(prompt, f"an elephant in {bites} bites")


def _diary(title: str, prompt: str) -> str | None:  # noqa: ARG001
    try:
        with open("out/diary-of-the-mouse.txt", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        print("there is no diary: the mouse has taken it along")
        return None


def _feast(title: str, prompt: str) -> str | None:  # noqa: ARG001
    """Too much for one: three smaller tasks first, and this claim ends with that; then a look at the whole."""
    if "It was split into" in prompt:
        return "The table is laid, the candles are lit, the bell was rung."
    parts = {"Lay the table": "plates", "Light the candles": "lights", "Ring the bell": "bell"}
    path = f"{os.environ['TASKPIT_RUN_DIR']}/children.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for part, name in parts.items():
            child = {"title": part, "body": f"Say so to `out/{name}.txt`.", "check": f"test -s out/{name}.txt"}
            file.write(json.dumps(child) + "\n")
    task = os.environ["TASKPIT_TASK"]
    pit = [sys.executable, "-m", "taskpit", "split", task, "-F", path]  # TASKPIT_AS says whose claim it is
    code = subprocess.run(pit, check=False).returncode
    os.unlink(path)
    return "Split." if code == 0 else None


def _say(title: str, prompt: str) -> str:
    return _write(prompt, title.lower() + ": done")


def _sign(title: str, prompt: str) -> str:  # noqa: ARG001
    """In a hurry at first, as its reviewer finds."""
    return _write(prompt, "Please knock before you enter." if "say please" in prompt else "Knock.")


def _judge(title: str, prompt: str) -> str:  # noqa: ARG001
    """A verdict, as reviewers are asked for: a sign has to be polite."""
    if "+Knock." not in prompt:
        return json.dumps({"verdict": "approve", "summary": "I have read it, and it is what was asked for."})
    print("how rude", flush=True)
    comment = {"path": "sign.txt", "line": 1, "text": "visitors are guests: say please"}
    return json.dumps({"verdict": "send-back", "summary": "It is not polite.", "comments": [comment]})


def _join(title: str, prompt: str) -> str:  # noqa: ARG001
    texts = []
    for path in re.findall(r"- (out/[\w.-]+)", prompt):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read().strip())
    return _write(prompt, "\n".join(texts))


def _keep(title: str, prompt: str) -> str:  # noqa: ARG001
    """A keeper's round: look around, and say when to look again."""
    pit = os.environ["TASKPIT_DIR"]
    food, done = (
        len([name for name in os.listdir(f"{pit}/{part}") if name.endswith(".md")]) for part in ("food", "done")
    )
    choked = sorted(
        name.removesuffix("-choked.md") for name in os.listdir(f"{pit}/scraps") if name.endswith("-choked.md")
    )
    print(f"{food} in the bowl, {done} eaten", flush=True)
    for name in choked:
        print(f"{name} is stuck in a snake's throat; a person should look", flush=True)
    said = f"WAITING-UNTIL: +{os.environ.get('DEMO_ROUND', '30s')}"
    print(said, flush=True)
    return said


ACTS = {
    "Reverse the word": _reverse,
    "Count the letters": _count,
    "Add up": _add,
    "Sort": _sort,
    "List the primes below": _primes,
    "Write a haiku": _haiku,
    "Digest the elephant": _elephant,
    "Read the diary": _diary,
    "Prepare the feast": _feast,
    "Write the": _join,
    "Lay the table": _say,
    "Light the candles": _say,
    "Ring the bell": _say,
    "Paint a sign": _sign,
    "Review: ": _judge,
    "keeper: a round": _keep,
}

if __name__ == "__main__":
    sys.exit(main())

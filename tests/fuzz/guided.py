"""Coverage-guided fuzzing of every parser, for as long as one likes; needs `atheris`, which comes on its own.

    python tests/fuzz/guided.py SECONDS [PARSER...]

Each parser is tried in a process of its own for its share of the time. What falls over is printed with the input that
did it, and the exit code is 1.
"""

from __future__ import annotations

import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "..", "src")]


def main(words: list[str]) -> int:
    """Every parser in turn."""
    from parsers import PARSERS

    seconds, names = float(words[0]), words[1:] or [parser.name for parser in PARSERS]
    share, fallen = max(int(seconds / len(names)), 1), []
    for name in names:
        argv = [
            sys.executable,
            __file__,
            "--one",
            name,
            f"-max_total_time={share}",
            "-timeout=20",
            "-rss_limit_mb=2048",
        ]
        ran = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        told = [line for line in ran.stderr.splitlines() if line.startswith("Done ")]
        print(f"{name}: {told[-1] if told else 'fell over'}", flush=True)
        if ran.returncode:
            fallen.append(name)
            print(ran.stderr[-4000:], flush=True)
    print(f"{len(names)} parsers, {share} s each, {len(fallen)} fell over: {', '.join(fallen) or 'none'}")
    return 1 if fallen else 0


def one(name: str, options: list[str]) -> None:
    """One parser, in this process, under the fuzzer's eyes."""
    import atheris

    with atheris.instrument_imports(include=["taskpit"]):
        from parsers import PARSERS
    parser = next(parser for parser in PARSERS if parser.name == name)
    import tempfile

    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(parser.seeds):
            with open(f"{corpus}/{number}", "wb") as file:
                file.write(seed)
        os.chdir(corpus)  # what it finds is printed; its files go with the folder
        atheris.Setup([sys.argv[0], corpus, *options], parser)
        atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main(sys.argv[1:]))

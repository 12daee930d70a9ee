"""A diff as files and rows: by git's own counts, so that no line of a file passes for a head."""

from __future__ import annotations

import os

from ground import git, write

from taskpit.landing import review
from taskpit.landing.diff import read_hunks
from taskpit.landing.review import ReviewComment, remarks


def diffed(ground, **files):
    task = ground.put()
    ground.work(task, **files)
    pipe, handed = ground.pipe, ground.pipe.hand_in_of(task)
    return review.diff(pipe, handed.base, handed.commit)


def test_rows_have_the_numbers_of_both_sides(ground):
    ground.commit("a.txt", "".join(f"line {n}\n" for n in range(1, 31)))
    text = "".join(f"line {n}\n" for n in range(1, 31)).replace("line 3\n", "three\nmore\n").replace("line 28\n", "")
    (part,) = read_hunks(diffed(ground, a_dot_txt=text), 100)
    assert (part.path, part.added, part.removed, part.left) == ("a.txt", 2, 2, 0)
    shown = [(row.kind, row.old, row.new, row.text) for row in part.rows if row.kind in "+-"]
    assert shown == [("-", 3, 0, "line 3"), ("+", 0, 3, "three"), ("+", 0, 4, "more"), ("-", 28, 0, "line 28")]
    last = [row for row in part.rows if row.kind == " "][-1]
    assert (last.old, last.new, last.text) == (30, 30, "line 30")


def test_new_gone_renamed_binary_and_odd_names(ground):
    ground.commit("old.txt", "x\n" * 20)
    ground.commit("gone.txt", "y\n")
    task = ground.put()
    claim, path = ground.enter(task)
    os.rename(f"{path}/old.txt", f"{path}/new name.txt")
    os.unlink(f"{path}/gone.txt")
    write(f'{path}/grüße "a"\t.txt', "no newline at the end")
    write(f"{path}/empty")
    with open(f"{path}/bin", "wb") as file:
        file.write(b"\0\1")
    open(f"{path}/empty", "w").close()
    ground.hand_in(claim)
    handed = ground.pipe.hand_in_of(task)
    parts = {part.path: part for part in read_hunks(review.diff(ground.pipe, handed.base, handed.commit), 100)}
    assert set(parts) == {"new name.txt", "gone.txt", 'grüße "a"\t.txt', "empty", "bin"}
    assert parts["new name.txt"].notes == ("renamed from old.txt",)
    assert parts["gone.txt"].notes == ("deleted",)
    assert parts["bin"].notes == ("new", "binary")
    assert [row.text for row in parts['grüße "a"\t.txt'].rows[1:]] == ["no newline at the end"]


def test_a_file_that_looks_like_a_diff_is_one_file(ground):
    evil = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- a/README\n"
    ground.commit("evil.txt", evil)
    (part,) = read_hunks(diffed(ground, evil_dot_txt=evil.replace("-- a/README\n", "") + "\x1b[31mred\u2028\r\n"), 100)
    assert part.path == "evil.txt"
    assert [(row.kind, row.text) for row in part.rows if row.kind in "+-"] == [
        ("-", "-- a/README"),
        ("+", "\\x1b[31mred\\u2028"),
    ]


def test_what_is_too_much_is_counted(ground):
    parts = read_hunks(diffed(ground, a_dot_txt="x\n" * 50, b_dot_txt="y\n" * 50), 60)
    assert [(len(part.rows), part.left, part.added) for part in parts] == [(51, 0, 50), (9, 42, 50)]
    assert read_hunks("", 10) == []
    assert read_hunks("nonsense\n@@ -1 +1 @@\n", 10) == []


def test_lines_that_name_a_place_in_the_candidate_are_comments(ground):
    task = ground.put()
    ground.work(task, src__a_dot_py="one\ntwo\n")
    text = "all of it\nsrc/a.py:2: use the helper\nsrc/b.py:2: not there\nnote: 3: this\nsrc/a.py:x: no\n"
    rest, comments = remarks(ground.pipe, ground.pipe.hand_in_of(task), text)
    assert comments == [ReviewComment(path="src/a.py", line=2, text="use the helper")]
    assert rest.splitlines() == ["all of it", "src/b.py:2: not there", "note: 3: this", "src/a.py:x: no"]
    assert git(ground.top, "status", "--short") == ""

"""What the report says of given numbers: ratios, goals met and missed, peers that are missing."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def book():
    from arena.stats import Book

    return Book()


def fill(book, scene, **rates):
    for name, values in rates.items():
        for number, value in enumerate(values):
            book.add(scene, name.replace("_", " "), number, value)


def finding(book, word):
    from arena.goals import judge

    (found,) = [each for each in judge(book) if word in each.goal.what]
    return found


def test_a_ratio_is_taken_within_a_round(book):
    fill(book, "life-1", taskpit=[100, 10, 40], dirq=[50, 5, 10])

    ratio = book.ratio(("life-1", "taskpit"), ("life-1", "dirq"))

    assert (ratio.median, ratio.low, ratio.high) == (2, 2, 4)
    assert str(ratio) == "2.00 (2.00..4.00)"


def test_without_a_round_in_common_medians_are_compared(book):
    book.add("life-1", "taskpit", 0, 100.0)
    book.add("life-1", "dirq", 1, 50.0)

    assert str(book.ratio(("life-1", "taskpit"), ("life-1", "dirq"))) == "2.00"
    assert book.ratio(("life-1", "taskpit"), ("life-1", "nobody")) is None


def test_the_percentile_is_one_of_the_values():
    from arena.stats import percentile

    assert percentile([float(value) for value in range(100)], 0.99) == 99
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2
    assert percentile([7.0], 0.99) == 7


@pytest.mark.parametrize(("milliseconds", "verdict"), [(0.2, "met"), (0.3, "missed"), (0.31, "missed")])
def test_below_is_below(book, milliseconds, verdict):
    for name, value in (("taskpit", milliseconds), ("Redis everysec", 0.3), ("beanstalkd", 0.4)):
        book.add("wake-p50", name, 0, value, "ms")

    assert finding(book, "put to claimed").verdict == verdict


@pytest.mark.parametrize(("cost", "verdict"), [(1.5, "met"), (1.51, "missed")])
def test_at_most_is_at_most(book, cost, verdict):
    book.add("claim", "1,000 ready", 0, 1.0, "ms")
    book.add("claim", "1,000,000 ready", 0, cost, "ms")

    assert finding(book, "claim cost").verdict == verdict


def test_one_miss_is_a_miss_however_good_the_rest(book):
    fill(book, "batch-1", taskpit=[100], dirq=[10], huey_SQLite=[101])

    assert finding(book, "batches of 100").verdict == "missed"


def test_what_could_not_be_measured_is_not_called_met(book):
    assert finding(book, "batches of 100").verdict == "not measured"

    fill(book, "batch-1", taskpit=[100], dirq=[10])

    assert finding(book, "batches of 100").verdict == "met as far as measured"


def power(book, *, eight, ten):
    """Ours is 100 in all scenes of power durability; peers are that much faster or slower in two of them."""
    for scene, factor in (("power-1", 0.05), ("power-8", eight), ("power-batch-10", ten), ("power-batch-100", 9.0)):
        book.add(scene, "taskpit power", 0, 100.0)
        for peer in ("SQLite FULL", "PostgreSQL", "bare calls + fsync"):
            book.add(scene, peer, 0, 100.0 * (1.0 if peer.startswith("bare") else factor))
    return finding(book, "power durability").verdict


def test_of_alternatives_one_is_enough(book):
    assert power(book, eight=0.9, ten=3.0) == "met"


def test_none_of_the_alternatives_is_a_miss(book):
    assert power(book, eight=1.1, ten=3.0) == "missed"


def test_a_number_by_itself_has_its_bound(book):
    book.add("memory", "1,000,000 ready", 0, 299.0, "MB")
    book.add("idle", "pit work -n 8", 0, 1.0, "% of a core")

    assert finding(book, "memory").verdict == "met"
    assert finding(book, "idle").verdict == "missed"


def test_the_report_names_what_is_missing(book):
    from arena.report import as_json, as_markdown
    from arena.scenes import all_entrants

    fill(book, "life-1", taskpit=[100.0, 120.0], bare_calls=[200.0, 160.0])
    book.measure("life-1", "dirq").note("failed: it fell over")
    book.missing["Redis everysec"] = "the command redis-server is not installed"
    book.left_out["1,000,000 ready"] = "the time was over"
    entrants = all_entrants()

    text = as_markdown(book, {"cores": "2"}, entrants, ["out/workers.png"], quick=False)
    data = json.loads(json.dumps(as_json(book, {"cores": "2"}, entrants, quick=False)))

    assert "- **Redis everysec** was not measured: the command redis-server is not installed" in text
    assert "- 1,000,000 ready was left out or cut short: the time was over" in text
    assert "bare calls, 1 worker: 0.62 (0.50..0.75) [at least 0.6]<br>" in text
    assert "huey file, 1 worker, with 10,000 waiting: not measured [at least 10]<br>" in text
    assert "| taskpit | tasks/s | 110 | 100..120 | 2 | 1.00 | process |" in text
    assert "failed: it fell over" in text
    assert "![workers](workers.png)" in text
    assert data["missing"] == {"Redis everysec": "the command redis-server is not installed"}
    assert {"scene", "entrant", "unit", "values", "median", "low", "high", "notes"} == set(data["measures"][0])
    assert data["entrants"]["PostgreSQL"]["durability"] == "power"
    assert {goal["verdict"] for goal in data["goals"]} == {"met as far as measured", "not measured"}


def test_every_row_of_a_table_has_the_same_cells(book):
    from arena.report import as_markdown
    from arena.scenes import all_entrants

    fill(book, "life-1", taskpit=[100.0], bare_calls=[200.0])
    book.measure("life-1", "dirq").note("failed: a | b")
    rows = [line for line in as_markdown(book, {}, all_entrants(), quick=True).splitlines() if line.startswith("|")]

    assert {row.replace("\\|", "").count("|") for row in rows} == {5, 9}


def test_a_peer_that_is_not_installed_says_so():
    from arena.entrants import needs_command, needs_module

    assert needs_module("json", "no_such_package") == "the Python package no_such_package is not installed"
    assert needs_command("sh", "no-such-command") == "the command no-such-command is not installed"
    assert needs_module("json") == needs_command("sh") == ""


def test_every_goal_asks_for_somebody_who_takes_part():
    from arena.goals import GOALS
    from arena.scenes import SCENES, all_entrants

    scenes, names = {scene.name for scene in SCENES}, set(all_entrants())
    for goal in GOALS:
        for check in goal.checks:
            for place in (check.above, check.below):
                if place is not None and place[0].startswith(("life", "batch", "power")):
                    assert place[0] in scenes
                    assert place[1] in names

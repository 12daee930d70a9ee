"""What tokens cost: the table that is shipped, and one's own."""

from __future__ import annotations

import re
import tomllib

import pytest

from taskpit.errors import Invalid
from taskpit.run import usage

SHIPPED = usage.files(env={"HOME": "/nowhere"})[0]


def test_the_shipped_table_is_dated_and_every_row_says_where_it_is_from():
    with open(SHIPPED, "rb") as file:
        told = tomllib.load(file)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", told["date"])
    assert {row.get("from") for row in told["models"].values()} <= told["from"].keys()
    for name, price in usage.load([SHIPPED]).models.items():
        assert 0 < price.input < price.output, name
        assert price.cached < price.input, name


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-opus-5-5", 4.0),
        ("anthropic/claude-opus-5", 5.0),
        ("claude-opus-4-1-20250805", 15.0),
        ("claude-opus-4-8[1m]", 5.0),
        ("gpt-5.1-codex-max", 1.25),
        ("gpt-5.4-mini-2026-03-17", 0.75),
        ("gemini-3.1-pro-preview", 2.0),
        ("standin/qwen3-coder-plus", 1.0),
    ],
)
def test_a_model_has_the_price_of_the_longest_name_it_begins_with(model, dollars):
    assert usage.load([SHIPPED]).of(model).input == dollars


def test_what_is_not_known_has_no_price():
    known = usage.load([SHIPPED])
    assert known.of("llama") is None
    assert known.dollars("gpt-5", {"input_tokens": 5}) is None
    facts = {"input_tokens": 1_000_000, "cached_tokens": 400_000, "output_tokens": 100_000}
    assert known.dollars("gpt-5", facts) == pytest.approx(0.6 * 1.25 + 0.4 * 0.125 + 1.0)


def test_ones_own_prices_go_before(tmp_path):
    mine = tmp_path / "prices.toml"
    mine.write_text('[models]\n"gpt-5" = { input = 1, output = 2, from = "my contract" }\n', encoding="utf-8")
    assert usage.load([SHIPPED, str(mine)]).of("gpt-5").output == 2.0


@pytest.mark.parametrize("row", ["1.25", "{ input = 1 }", '{ input = 1, output = "2" }', "{ input = -1, output = 2 }"])
def test_a_row_that_is_no_price_is_named_with_its_file(tmp_path, row):
    mine = tmp_path / "prices.toml"
    mine.write_text(f'[models]\n"my-model" = {row}\n', encoding="utf-8")
    with pytest.raises(Invalid, match="my-model") as caught:
        usage.load([str(mine)])
    assert str(mine) in str(caught.value)

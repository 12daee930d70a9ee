"""What an agent says of itself, checked before anything is done with it, and what its tokens cost.

A session becomes an argument of the next run and a model one of a command; an amount is added to what was spent.
All of them come from a program that reads the internet: what is not plainly one of these is as good as unsaid.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from taskpit import fs
from taskpit.errors import Invalid
from taskpit.model import Value
from taskpit.toml_checker import parse
from taskpit.trust import config_path

_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_MODEL = re.compile(r"[A-Za-z0-9<][A-Za-z0-9._:/@<>\[\] -]{0,99}")
#: Nothing that is counted here comes near it.
MOST = 1e12


def session_name(said: object) -> str:
    """The name of a session; empty if this is none: it never begins with a dash."""
    return said if isinstance(said, str) and _SESSION.fullmatch(said) else ""


def model_name(said: object) -> str:
    """The name of a model; empty if this is none."""
    return said.strip() if isinstance(said, str) and _MODEL.fullmatch(said) else ""


def amount(said: object) -> float | None:
    """A number of dollars, tokens or seconds: finite and not negative; None if this is none."""
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        number = float(said)
    except OverflowError:
        return None
    return number if math.isfinite(number) and 0.0 <= number <= MOST else None


# -- what tokens cost ------------------------------------------------------------------------------


FILE = "prices.toml"
LARGEST = 1024 * 1024
MILLION = 1e6


class Price(Value, frozen=True, kw_only=True):
    """Dollars for a million tokens. Where a price was found (`from`) is for readers of the file."""

    input: float
    output: float
    #: What is read from the provider's cache; as `input` unless the table says otherwise.
    cached: float = -1.0


class Prices(Value, frozen=True, kw_only=True):
    """What is known about prices."""

    date: str = ""
    models: Mapping[str, Price] = {}

    def of(self, model: str) -> Price | None:
        """The price of this model; None if nobody knows it."""
        name = model.lower().rpartition("/")[2]
        fits = [key for key in self.models if name == key or name.startswith((f"{key}-", f"{key}.", f"{key}["))]
        return self.models[max(fits, key=len)] if fits else None

    def dollars(self, model: str, facts: Mapping[str, object]) -> float | None:
        """What these tokens cost; None if the model's price is not known, or nothing was counted."""
        price = self.of(model)
        counted = {key: amount(facts.get(f"{key}_tokens")) for key in ("input", "output", "cached")}
        if price is None or counted["input"] is None or counted["output"] is None:
            return None
        cached = min(counted["cached"] or 0.0, counted["input"])
        rate = price.cached if price.cached >= 0 else price.input
        fresh = counted["input"] - cached
        return (fresh * price.input + cached * rate + counted["output"] * price.output) / MILLION


def files(root: str = "", env: Mapping[str, str] | None = None) -> list[str]:
    """Where prices are looked for; the last one has the last word."""
    env = os.environ if env is None else env
    mine = [f"{root}/.taskpit/{FILE}"] if root and os.path.isdir(root) else []
    ours = (os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE), config_path(FILE, env))
    return [*map(os.path.realpath, ours), *mine]  # links of one's own are followed, those of a queue are not


def load(paths: Sequence[str]) -> Prices:
    """All prices there are; Invalid names the file and what is wrong in it."""
    date, models = "", {}
    for path in paths:
        try:
            fields = parse(fs.read(path, LARGEST)[0].decode(), path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise Invalid(f"{path}: {error}", path=path) from None
        date = str(fields.get("date", date))
        models.update(_models(path, fields.get("models", {})))
    return Prices(date=date, models=models)


def _models(path: str, given: Any) -> dict[str, Price]:
    if not isinstance(given, dict):
        raise Invalid(f"{path}: models is a table", path=path)
    found = {}
    for name, fields in given.items():
        rates = {key: one for key, one in fields.items() if key != "from"} if isinstance(fields, dict) else {}
        known = {"input", "output"} <= rates.keys() <= {"input", "output", "cached"}
        if not known or any(amount(one) is None for one in rates.values()):
            hint = f'Write: "{name}" = {{ input = 1.25, cached = 0.125, output = 10.0 }}, dollars for a million tokens.'
            raise Invalid(f"{path}: {name!r} is no price", hint=hint, path=path, key=name)
        found[name.lower()] = Price(**{key: float(one) for key, one in rates.items()})
    return found

"""The colours, dark and light: calm, and readable on either."""

from __future__ import annotations

from textual.theme import Theme

__all__ = ["THEMES"]

THEMES = (
    Theme(
        name="pit-dark",
        primary="#7aa2f7",
        secondary="#5d7fc4",
        accent="#7aa2f7",
        success="#86c991",
        warning="#e3b566",
        error="#ec7f79",
        foreground="#d5dae3",
        background="#15181e",
        surface="#1b1f27",
        panel="#262c37",
        variables={"muted": "#8a93a3"},
        dark=True,
    ),
    Theme(
        name="pit-light",
        primary="#2458b8",
        secondary="#4a73bf",
        accent="#2458b8",
        success="#23733b",
        warning="#8a5a00",
        error="#b02a24",
        foreground="#24282e",
        background="#fcfcfa",
        surface="#f2f2ee",
        panel="#e4e6ea",
        variables={"muted": "#646b76"},
        dark=False,
    ),
)

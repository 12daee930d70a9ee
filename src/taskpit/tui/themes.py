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
    # For terminals of sixteen colours: each of these is one of them, so that a state still has its own.
    Theme(
        name="pit-sixteen",
        primary="#00ffff",
        secondary="#00ffff",
        accent="#00ffff",
        success="#00ff00",
        warning="#ffff00",
        error="#ff0000",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#7f7f7f",
        variables={"muted": "#e5e5e5"},
        dark=True,
    ),
)

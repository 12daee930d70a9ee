"""One column of slips: only the lines that are seen are drawn, so ten thousand cost what ten do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from taskpit.board import Slip
from taskpit.tui.drawing import STYLES, Parts, cut, slip_age, table_line, two_lines

#: From this width on a slip is one line of a table, below it two lines.
TABLE = 64
#: Ids are shown as wide as they are, up to here.
WIDEST_ID = 18


def shared(wishes: dict[str, int], current: str, room: int) -> dict[str, float]:
    """How wide each column is: none has more than it wishes while another has less than its share of the room.

    The column that keys act on has a larger share.
    """
    weights = {name: 1.8 if name == current else 1.0 for name in wishes}
    widths: dict[str, float] = {}
    left, weight = float(room), sum(weights.values())
    for name in sorted(wishes, key=lambda one: wishes[one] / weights[one]):
        widths[name] = min(float(wishes[name]), left * weights[name] / weight)
        left -= widths[name]
        weight -= weights[name]
    return widths


class Column(ScrollView, can_focus=True):
    """The slips of one column, one of them picked."""

    COMPONENT_CLASSES = {*(f"slip--{name}" for name in STYLES), "slip--picked", "slip--mark"}
    BINDINGS = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown,space", "page(1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
    ]

    class Picked(Message):
        """Another slip is picked, or none."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self, name: str, clock: Callable[[], float], empty: str) -> None:
        super().__init__(id=name, classes=name)
        self.title = name
        self._clock = clock
        self._empty = empty
        self.slips: Sequence[Slip] = ()
        self.at = 0
        self._id_width = 4
        self._ages: list[str] = []

    # -- what it shows -----------------------------------------------------------------------------

    @property
    def picked(self) -> Slip | None:
        """The slip that keys act on."""
        return self.slips[self.at] if self.slips else None

    def show(self, slips: Sequence[Slip], empty: str = "") -> None:
        """These from now on; the slip that was picked stays so wherever it went in here."""
        before = self.picked
        self.slips, self._empty = slips, empty or self._empty
        self._id_width = max((len(slip.id) for slip in slips[:200]), default=4)
        self._id_width = min(max(self._id_width, 4), WIDEST_ID)
        if before is not None:
            self.at = self._place_of(before.id)
        self._measure()
        if self.picked != before:
            self._tell()

    def _place_of(self, task_id: str) -> int:
        """Where it is now; if it is gone, where it was."""
        for at in (self.at, self.at - 1, self.at + 1):
            if 0 <= at < len(self.slips) and self.slips[at].id == task_id:
                return at
        found = next((at for at, slip in enumerate(self.slips) if slip.id == task_id), self.at)
        return max(min(found, len(self.slips) - 1), 0)

    def pick(self, task_id: str) -> bool:
        """This one is picked; False if it is not here."""
        found = next((at for at, slip in enumerate(self.slips) if slip.id == task_id), None)
        if found is not None:
            self._go(found)
        return found is not None

    @property
    def wish(self) -> int:
        """How much room its slips would like, in letters; `shared` says how much they get."""
        longest = max((cell_len(slip.title) for slip in self.slips[:50]), default=0)
        return min(max(longest, 16), 44) + 8

    @property
    def pitch(self) -> int:
        """Lines that one slip takes."""
        return 1 if self.size.width >= TABLE else 2

    def _measure(self) -> None:
        self.virtual_size = Size(self.size.width, len(self.slips) * self.pitch)
        self._reveal()
        self.refresh()

    def on_resize(self) -> None:
        """It has another width: slips may take other heights."""
        self._measure()

    def grow_older(self) -> None:
        """Draw again if an age that is seen is another than before."""
        first = self.scroll_offset.y // self.pitch
        seen = self.slips[first : first + self.size.height // self.pitch + 1]
        now = self._clock()
        ages = [slip_age(slip, now) for slip in seen]
        if ages != self._ages:
            self._ages = ages
            self.refresh()

    # -- moving ------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """The next one, or the one before."""
        self._go(self.at + step)

    def action_page(self, way: int) -> None:
        """A screen further."""
        self._go(self.at + way * max(self.size.height // self.pitch - 1, 1))

    def on_click(self, event: events.Click) -> None:
        """The one that was clicked."""
        self._go((event.y + self.scroll_offset.y) // self.pitch)

    def on_focus(self) -> None:
        """Keys act on what is picked here."""
        self._tell()
        self.refresh()

    def on_blur(self) -> None:
        """They act elsewhere."""
        self.refresh()

    def _go(self, at: int) -> None:
        at = max(min(at, len(self.slips) - 1), 0)
        if at != self.at:
            self.at = at
            self._reveal()
            self.refresh()
            self._tell()

    def _reveal(self) -> None:
        if self.slips and self.size.height:
            region = Region(0, self.at * self.pitch, 1, self.pitch)
            self.scroll_to_region(region, animate=False, force=True)

    def _tell(self) -> None:
        self.post_message(self.Picked(self))

    # -- drawing -----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        """One line as it is seen."""
        width = self.size.width
        line = y + self.scroll_offset.y
        at, part = divmod(line, self.pitch)
        if not self.slips:
            return self._say_empty(y, width)
        if at >= len(self.slips):
            return Strip.blank(width, self.rich_style)
        slip, now = self.slips[at], self._clock()
        room = width - 3  # a mark before, a space before the scroll bar or the next column
        parts = table_line(slip, room, self._id_width, now) if self.pitch == 1 else two_lines(slip, room, now)[part]
        return self._strip(parts, width, picked=at == self.at)

    def _strip(self, parts: Parts, width: int, *, picked: bool) -> Strip:
        base = self.rich_style
        ours = picked and (self.has_focus or self.has_class("-current"))
        if ours:
            base += self.get_component_rich_style("slip--picked", partial=True)
        mark = Segment("▌" if ours else " ", base + self.get_component_rich_style("slip--mark", partial=True))
        shown = [Segment(text, base + self._style(name)) for text, name in parts]
        return Strip([mark, *shown]).adjust_cell_length(width, base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"slip--{name}", partial=True)

    def _say_empty(self, y: int, width: int) -> Strip:
        shown = ["", *wrap(self._empty, max(width - 3, 10))]
        if y >= len(shown):
            return Strip.blank(width, self.rich_style)
        text = cut(shown[y], width - 2) if shown[y] else ""
        return Strip([Segment(f" {text}", self.rich_style + self._style("meta"))]).adjust_cell_length(
            width, self.rich_style
        )

"""The plots: throughput by workers, put-to-claimed latencies, cost of a claim by backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from arena.stats import Book

__all__ = ["draw"]

#: Ours stands out, bare calls are the background, peers are told apart.
STYLES: dict[str, dict[str, Any]] = {
    "taskpit": {"color": "#c0392b", "linewidth": 2.6, "zorder": 5},
    "bare calls": {"color": "#444444", "linestyle": "--"},
    "plain protocol": {"color": "#999999", "linestyle": ":"},
}


def draw(book: Book, folder: str) -> list[str]:
    """The plots there are numbers for, as PNG files in this folder; their paths. None without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        return []
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    drawn = []
    for name, plot in (("workers", _workers), ("latency", _latency), ("backlog", _backlog)):
        figure, axes = plt.subplots(figsize=(9, 5), constrained_layout=True)
        if plot(book, axes):
            axes.grid(visible=True, alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
            path = f"{folder}/{name}.png"
            figure.savefig(path, dpi=130)
            drawn.append(path)
        plt.close(figure)
    return drawn


def _workers(book: Book, axes: Any) -> bool:
    """Lives in a second by the number of workers."""
    import matplotlib as mpl
    from matplotlib.ticker import LogLocator

    scenes = {workers: f"life-{workers}" for workers in (1, 2, 4, 8)}
    names = dict.fromkeys(measure.entrant for measure in book if measure.scene in scenes.values())
    axes.set_prop_cycle(color=mpl.colormaps["tab20"].colors)
    for name in names:
        points = [(workers, found) for workers, scene in scenes.items() if (found := book.find(scene, name))]
        if points:
            across, up = [workers for workers, _ in points], [found.median for _, found in points]
            low = [found.median - min(found.values) for _, found in points]
            high = [max(found.values) - found.median for _, found in points]
            axes.errorbar(across, up, yerr=(low, high), marker="o", capsize=2, label=name, **STYLES.get(name, {}))
    axes.set(xlabel="workers", ylabel="lives in a second", xscale="log", yscale="log")
    axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"], minor=False)
    axes.minorticks_off()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_title("put, claim, done with a result: process durability, one by one")
    return bool(names)


def _latency(book: Book, axes: Any) -> bool:
    """How many were claimed within how long."""
    found = {name: sorted(values) for (scene, name), values in book.samples.items() if scene == "wake"}
    for name, values in found.items():
        share = [(place + 1) / len(values) for place in range(len(values))]
        axes.step(values, share, where="post", label=name, **STYLES.get(name, {}))
    axes.set(
        xlabel="milliseconds from the beginning of a put until a waiting worker has it", ylabel="share", xscale="log"
    )
    axes.set_title("put to claimed")
    return bool(found)


def _backlog(book: Book, axes: Any) -> bool:
    """What a claim costs by how many are ready."""
    drawn = False
    for scene, label in (("claim", "a claim of a worker that stays"), ("claim-first", "its first claim")):
        points = [(int(each.entrant.split()[0].replace(",", "")), each) for each in book.of(scene) if each.rounds]
        if points:
            drawn = True
            axes.plot([size for size, _ in points], [each.median for _, each in points], marker="o", label=label)
    points = [(each, each.entrant.rpartition(" at ")[2]) for each in book.of("oneshot") if " at " in each.entrant]
    for prefix in ("pit claim", "sh: glob and mv"):
        those = [(int(size.replace(",", "")), each.median) for each, size in points if each.entrant.startswith(prefix)]
        if those:
            drawn = True
            axes.plot(*zip(*those, strict=True), marker="s", linestyle="--", label=f"{prefix}, one command")
    axes.set(xlabel="ready tasks", ylabel="milliseconds", xscale="log", yscale="log")
    axes.set_title("cost of a claim by backlog")
    return drawn

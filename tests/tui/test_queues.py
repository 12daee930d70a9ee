"""Every queue of the user on one screen of the terminal."""

from __future__ import annotations

import asyncio

from pits import reopened

from taskpit.clock import Clock
from taskpit.model import Ask, Task
from taskpit.run.user_queues import Queues
from taskpit.store.opening import init
from taskpit.tui.queues import AllQueues


def test_the_queues_as_they_change_and_the_one_that_is_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = {}
    for name in ("api", "docs", "torn"):
        root = str(tmp_path / name / "pit")
        init(root)
        made[name] = reopened(root, Clock())
    (tmp_path / "torn" / "pit" / ".taskpit" / "config.toml").write_text("lease = 3\nnonsense")
    queues = Queues({})

    async def session():
        app = AllQueues(queues, str(tmp_path / "docs" / "pit"), pace=0)
        async with app.run_test(size=(100, 30)) as pilot:
            await app.workers.wait_for_complete()
            options = app.query_one("#queues")
            assert options.option_count == 3
            assert options.highlighted == 1  # the one that was looked at before
            made["docs"].put([Task(id="", title="Write [bold]it[/bold]")])
            made["docs"].finish(made["docs"].claim("snake")[0], Ask(question="in which language?"))
            await app.catch_up()
            await pilot.pause()
            shown = [str(options.get_option_at_index(n).prompt) for n in range(3)]
            assert shown[0].startswith("docs  1 needs you")
            assert "Write [bold]it[/bold]  in which language?" in shown[0]
            assert "config.toml" in shown[2]
            assert options.highlighted == 0  # still the same queue
            assert "1 needs you" in str(app.query_one("#told").render())
            await pilot.press("j", "enter")
        return app.return_value

    try:
        assert asyncio.run(session()) == str(tmp_path / "api" / "pit")
    finally:
        queues.close()
        for queue in made.values():
            queue.close()

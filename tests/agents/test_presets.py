"""Presets are data: shipped ones are sound, one's own go before them, and mistakes are named."""

from __future__ import annotations

import os
import re

import pytest

from taskpit.errors import Invalid, NotFound
from taskpit.run.preset import fill, find, names, places

SHIPPED = ["claude", "codex", "copilot", "gemini", "goose", "opencode", "qwen"]
PACKAGE = places("", {"HOME": "/nowhere"})[0]


@pytest.fixture
def mine(tmp_path):
    """Folders to look in, and a way to put a preset into the queue's."""
    (tmp_path / ".taskpit" / "presets").mkdir(parents=True)
    folders = places(str(tmp_path), {"HOME": str(tmp_path / "home")})

    def write(name, text, folder=folders[-1]):
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{name}.toml", "w", encoding="utf-8") as file:
            file.write(text)

    write.folders = folders
    return write


def test_those_in_the_package():
    assert names([PACKAGE]) == ["acp", "aider", *SHIPPED]


def test_one_without_events_says_which_words_count():
    preset = find("aider", [PACKAGE])
    assert {"quota", "auth", "infra", "failed"} <= {rule.means for rule in preset.error if rule.always}


@pytest.mark.parametrize("name", SHIPPED)
def test_each_is_sound(name):
    preset = find(name, [PACKAGE])
    assert preset.must_end
    assert preset.take["text"]
    assert preset.resume
    assert {"quota", "auth", "no-session", "infra"} <= {rule.means for rule in preset.error}
    assert preset.stall >= 600  # a test suite that an agent runs may be silent for long
    values = dict.fromkeys(
        ("bin", "prompt", "worktree", "session", "model", "id", "title", "run_dir", "queue", "hook"), "x"
    )
    for argv in (fill(one, values, ["--extra"], preset.flags) for one in (preset.argv, preset.resume)):
        assert "--extra" in argv
        assert set(preset.flags) <= set(argv)  # the first run and the resumed one may do the same
        assert not any(re.search(r"\{[a-z_]+\}", word) for word in argv)


def test_what_hangs_on_an_empty_word_is_left_out():
    argv = ("{bin}", ("-m", "{model}"), "{extra}", "say {id}", "{unknown}")
    assert fill(argv, {"bin": "x", "model": "", "id": "7"}) == ("x", "say 7", "{unknown}")
    assert fill(argv, {"bin": "x", "model": "big", "id": "7"}, ["-v"]) == ("x", "-m", "big", "-v", "say 7", "{unknown}")


def test_values_are_not_filled_in_again():
    assert fill(("{prompt}",), {"prompt": "{model}", "model": "m"}) == ("{model}",)


def test_ones_own_words_go_before_the_shipped(mine):
    shipped = find("claude", mine.folders)
    mine("claude", 'bin = "/opt/claude"\nlimit = 3\n', mine.folders[1])
    mine(
        "claude",
        'limit = 5\nwindow = "5h"\n[take]\nmood = { path = "mood" }\n[[error]]\npattern = "x"\nmeans = "infra"',
    )
    preset = find("claude", mine.folders)
    assert (preset.bin, preset.limit, preset.window) == ("/opt/claude", 5, 18000.0)
    assert preset.argv == shipped.argv
    assert preset.take.keys() == {*shipped.take, "mood"}
    assert [rule.pattern.pattern for rule in preset.error] == [
        "x",
        *(rule.pattern.pattern for rule in shipped.error),
    ]


def test_xdg_config_home_is_honoured():
    assert places("", {"XDG_CONFIG_HOME": "/conf"})[1] == "/conf/taskpit/presets"


def test_a_new_one_may_extend_another(mine):
    mine("cursor", 'extends = "claude"\nbin = "cursor-agent"\nargv = ["{bin}", "-p", "--force"]\n')
    preset = find("cursor", mine.folders)
    assert (preset.name, preset.bin, preset.prompt) == ("cursor", "cursor-agent", "stdin")
    assert preset.event == find("claude", mine.folders).event
    assert "cursor" in names(mine.folders)


def test_one_of_the_same_name_extends_the_shipped_one_in_both_commands(mine):
    mine("claude", 'extends = "claude"\nflags = ["--permission-mode", "plan"]\n')
    preset = find("claude", mine.folders)
    for argv in (
        fill(one, {"session": "s", "run_dir": "/r"}, (), preset.flags) for one in (preset.argv, preset.resume)
    ):
        assert argv[argv.index("--permission-mode") + 1] == "plan"
    assert preset.event == find("claude", [PACKAGE]).event


def test_presets_in_a_circle(mine):
    mine("a", 'extends = "b"')
    mine("b", 'extends = "a"')
    with pytest.raises(Invalid, match="a -> b -> a"):
        find("a", mine.folders)


def test_no_such_preset(mine):
    with pytest.raises(NotFound) as caught:
        find("claud", mine.folders)
    assert "Did you mean 'claude'?" in caught.value.hint
    assert "opencode" in caught.value.hint
    for name in ("../claude", "", ".hidden"):
        with pytest.raises(NotFound):
            find(name, mine.folders)


@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        ('argv = ["x"]\ngrase = "3s"', ":2: there is no key 'grase'", "Did you mean 'grace'?"),
        ('argv = ["x"]\nzzz = 1', "there is no key 'zzz'", "Keys are: extends"),
        ('argv = "x"', ":1: argv is a list of words", ""),
        ('argv = ["{modell}"]', "argv has no word {modell}", "Did you mean 'model'?"),
        ('argv = ["x", ["-m", 3]]', "argv is a list of words, not", ""),
        ('argv = ["x"]\nprompt = "stdinn"', "prompt is one of stdin, argument, file", "Did you mean 'stdin'?"),
        ('argv = ["x"]\nstall = "soon"', "stall is a duration", ""),
        ('argv = ["x"]\nlimit = -1', "limit is a whole number", ""),
        ('argv = ["x"]\n[[event]]\nwhen = {type="a"}\nmean = "done"', ":4: there is no key 'mean'", "'means'"),
        ('argv = ["x"]\n[[event]]\nmeans = "done"', "event needs `when`", ""),
        ('argv = ["x"]\n[[event]]\nwhen = {type="a"}\nmeans = "dome"', ":4: means is one of done, failed", "'done'"),
        ('argv = ["x"]\n[[error]]\npattern = "("\nmeans = "quota"', "pattern is no regular expression", ""),
        ('argv = ["x"]\n[[error]]\npattern = "a"\nmeans = "quota"\nresets = "b"', "resets needs a group", ""),
        ('argv = ["x"]\n[take]\ncost = {when = {a = 1}}', "cost needs `path`", ""),
        ('argv = ["x"]\n[exit]\none = "failed"', ":3: one is no exit code", ""),
        ('argv = ["x"]\nprompt = "argument"', 'prompt = "argument" needs {prompt} in argv', ""),
        ('argv = ["x"]\nprompt = "file"', 'prompt = "file" needs {prompt_file} in argv', ""),
        ('argv = ["x"]\nresume = ["x"]', "`resume` must say {session}", ""),
        ('argv = ["x"]\nsession = "theirs"', "needs `take.session`", ""),
        ('bin = "x"', "a preset needs `argv`", ""),
        ("argv = x", "own.toml:1: ", ""),
    ],
)
def test_mistakes_are_named_with_file_and_what_was_meant(mine, text, told, hint):
    mine("own", text)
    with pytest.raises(Invalid) as caught:
        find("own", mine.folders)
    assert caught.value.message.startswith(f"{mine.folders[-1]}/own.toml")
    assert told in caught.value.message
    assert hint in caught.value.hint


def test_flags_of_ones_own_hold_in_a_sandbox_too(mine):
    """What the shipped preset says there is for its own flags: who says others means them."""
    assert find("codex", mine.folders).sandboxed == ("-s", "danger-full-access")
    mine("codex", 'extends = "codex"\nflags = ["-s", "read-only"]\n')
    assert (find("codex", mine.folders).flags, find("codex", mine.folders).sandboxed) == (("-s", "read-only"), ())


def test_a_preset_has_at_most_22_keys(mine):
    mine("own", 'argv = ["x"]\nzzz = 1\n')
    with pytest.raises(Invalid) as caught:
        find("own", mine.folders)
    assert len(caught.value.hint.removeprefix("Keys are: ").split(", ")) <= 22

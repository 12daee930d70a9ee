"""`pit setup` in a project: every agent, files of every kind, and back to what was there."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import tomllib

import pytest

from taskpit import fs
from taskpit.setup.agent_files import AGENTS

EVERY = sorted(AGENTS)
MCP = {
    "claude": ".mcp.json",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "opencode": "opencode.json",
    "codex": ".codex/config.toml",
    "qwen": ".qwen/settings.json",
    "copilot": ".github/mcp.json",
}
WORDS = {"claude": "CLAUDE.md", "gemini": "GEMINI.md", "qwen": "QWEN.md"}


def rich(project):
    """A project as people have them: files of their own in every place we write to."""
    (project / "AGENTS.md").write_bytes(b"# Ours\r\n\r\nDo this.\r\n")
    (project / "CLAUDE.md").write_bytes(b"no newline at the end")
    (project / "GEMINI.md").write_bytes(b"")
    (project / ".mcp.json").write_bytes(b'{\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"}\r\n\t}\r\n}')
    (project / "opencode.jsonc").write_bytes(b'{\n  // what we use\n  "model": "m", /* { */\n  "mcp": {},\n}\n')
    for folder, name, data in [
        (".gemini", "settings.json", b'{"theme":"dark"}'),
        (".cursor", "mcp.json", b'{ "mcpServers": { "a": {} } }\n'),
        (".codex", "config.toml", b'# mine\nmodel = "m"\n\n[mcp_servers.other]\ncommand = "x"'),
        (".claude", "settings.json", b'{"hooks": {}}'),
        (".git/hooks", "pre-commit", b"#!/bin/sh\n"),
    ]:
        (project / folder).mkdir(parents=True)
        (project / folder / name).write_bytes(data)
    (project / ".mcp.json").chmod(0o600)


@pytest.mark.parametrize("agent", EVERY)
@pytest.mark.parametrize("make", [lambda _: None, rich], ids=["empty", "rich"])
def test_there_and_back(project, setup, picture, agent, make):
    make(project)
    before = picture()

    assert setup(agent, "--check").code == 7
    assert picture() == before  # a look changes nothing
    assert setup(agent).code == 0
    inside = picture()
    assert inside != before
    assert setup(agent, "--check").code == 0
    assert setup(agent).code == 0
    assert picture() == inside  # twice is once
    assert {name: inside[name] for name in before if name.startswith(".git")} == {
        name: before[name] for name in before if name.startswith(".git")
    }
    assert setup(agent, "--remove").code == 0
    assert picture() == before
    assert setup(agent, "--remove").code == 0
    assert picture() == before  # there is nothing of ours


def test_everybody_at_once_and_one_after_the_other(project, setup, picture):
    rich(project)
    before = picture()

    assert setup(*EVERY).code == 0
    assert setup(*EVERY, "--check").code == 0
    for agent in EVERY:
        assert setup(agent, "--remove").code == 0
        for other in EVERY[EVERY.index(agent) + 1 :]:
            assert setup(other, "--check").code == 0, (agent, other)
    assert picture() == before


@pytest.mark.parametrize("agent", [agent for agent in EVERY if agent in MCP])
def test_the_server_is_registered(project, setup, agent):
    setup(agent)
    text = (project / MCP[agent]).read_text()
    if agent == "codex":
        assert tomllib.loads(text)["mcp_servers"] == {"taskpit": {"command": "pit", "args": ["mcp"]}}
    elif agent == "opencode":
        assert json.loads(text)["mcp"]["taskpit"] == {"type": "local", "command": ["pit", "mcp"], "enabled": True}
    else:
        found = json.loads(text)["mcpServers"]["taskpit"]
        assert (found["command"], found["args"]) == ("pit", ["mcp"])
    words = (project / WORDS.get(agent, "AGENTS.md")).read_text()
    assert "pit prime" in words
    assert words.count("taskpit:begin v1") == 1


def test_what_others_wrote_is_untouched(project, setup):
    rich(project)
    setup(*EVERY)

    assert (project / "AGENTS.md").read_bytes().startswith(b"# Ours\r\n\r\nDo this.\r\n")
    assert b"\n" not in (project / "AGENTS.md").read_bytes().replace(b"\r\n", b"")
    assert stat.S_IMODE(os.stat(project / ".mcp.json").st_mode) == 0o600
    assert b"// what we use" in (project / "opencode.jsonc").read_bytes()
    assert not (project / "opencode.json").exists()
    assert (project / ".claude/settings.json").read_bytes() == b'{"hooks": {}}'


def test_a_block_somebody_changed_is_left_alone(project, setup):
    setup("agents-md")
    path = project / "AGENTS.md"
    path.write_text(path.read_text().replace("Before you start", "NEVER push to main. Before you start"))
    edited = path.read_text()

    told = setup("agents-md", "--check")
    assert (told.code, "AGENTS.md is by hand" in told.out) == (0, True)
    assert "changed by hand" in setup("agents-md").out
    assert path.read_text() == edited
    assert setup("cursor").code == 0  # it is for this one, too
    assert path.read_text() == edited.replace("for=agents-md", "for=agents-md,cursor")
    assert setup("cursor", "--remove").code == 0
    assert path.read_text() == edited
    assert "changed by hand" in setup("agents-md", "--remove").out
    assert path.read_text() == edited


def test_a_block_of_an_older_version_is_brought_up_to_date(project, setup):
    setup("claude")
    path = project / "CLAUDE.md"
    new = path.read_text()
    old = re.sub(" sum=[0-9a-f]{8}", "", new)
    assert old != new
    path.write_text(old)
    assert setup("claude", "--check").code == 7
    assert setup("claude").code == 0
    assert path.read_text() == new
    path.write_text(old)
    assert setup("claude", "--remove").code == 0
    assert not path.exists()
    path.write_text(old.replace("## Tasks", "## Our tasks"))
    assert "changed by hand" in setup("claude").out


def test_keys_somebody_gave_the_server_are_left_alone(project, setup):
    setup("codex")
    path = project / ".codex/config.toml"
    for text in (
        path.read_text().replace('args = ["mcp"]\n', 'args = ["mcp"]\nstartup_timeout_sec = 60\nenv = { A = "b" }\n'),
        path.read_text() + '\n[mcp_servers.taskpit.env]\nA = "b"\n',
    ):
        path.write_text(text)
        assert setup("codex").code == 0
        assert setup("codex", "--check").code == 0
        assert "changed by hand" in setup("codex", "--remove").out
        assert path.read_text() == text


def test_an_entry_of_somebodys_own_is_left_alone(project, setup, picture):
    text = '{"mcpServers": {"taskpit": {"command": "/opt/pit", "args": ["-C", "q", "mcp"]}}}'
    (project / ".mcp.json").write_text(text)

    assert setup("claude").code == 0
    assert setup("claude", "--check").code == 0
    assert "written by hand" in setup("claude", "--remove").out
    assert (project / ".mcp.json").read_text() == text
    assert list(picture()) == [".mcp.json"]


def test_another_thing_under_our_name_is_refused(project, setup, picture):
    (project / ".cursor").mkdir()
    (project / ".cursor/mcp.json").write_text('{"mcpServers": {"taskpit": {"command": "rm"}}}')
    before = picture()

    told = setup("cursor")
    assert told.code == 6
    assert "something else" in told.err
    assert picture() == before


def test_a_skill_somebody_changed_is_left_alone(project, setup):
    setup("claude")
    skill = project / ".claude/skills/taskpit/SKILL.md"
    skill.write_text(skill.read_text() + "And be kind.\n")

    assert "changed by hand" in setup("claude").out
    assert skill.read_text().endswith("And be kind.\n")
    assert setup("claude", "--remove").code == 0
    assert skill.read_text().endswith("And be kind.\n")
    assert not (project / ".claude/skills/taskpit/hooks").exists()


@pytest.mark.parametrize(
    ("agent", "name", "data", "why"),
    [
        ("claude", ".mcp.json", b"{", "not JSON"),
        ("claude", ".mcp.json", b"", "not JSON"),
        ("claude", ".mcp.json", b"\xff\xfe", "not UTF-8"),
        ("claude", ".mcp.json", b'{"mcpServers": []}', "not an object"),
        ("claude", "CLAUDE.md", b"<!-- taskpit:begin v1 for=claude -->\nhalf\n", "markers"),
        ("codex", ".codex/config.toml", b"[broken", "not TOML"),
        ("codex", ".codex/config.toml", b"mcp_servers = {}\n", "not TOML"),
    ],
)
def test_what_cannot_be_edited_is_refused_before_anything_is_done(project, setup, picture, agent, name, data, why):
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_bytes(data)
    before = picture()

    assert setup(agent, "--check").code == 7
    told = setup(agent)
    assert told.code == 6
    assert why in told.err
    assert "Nothing was changed. By hand," in told.err
    assert "pit" in told.err.partition("By hand,")[2]
    assert picture() == before


def test_what_one_agent_cannot_have_is_refused_before_another_is_set_up(project, setup, picture):
    (project / ".gemini").mkdir()
    (project / ".gemini/settings.json").write_text("{broken")
    before = picture()

    told = setup("claude", "gemini")
    assert (told.code, "Nothing was changed" in told.err) == (6, True)
    assert picture() == before
    assert setup("claude", "gemini", "--remove").code == 6
    assert picture() == before


def test_a_file_in_a_folders_place_is_refused_before_anything_is_done(project, setup, picture):
    (project / ".claude").write_text("x\n")
    before = picture()

    told = setup("claude")
    assert (told.code, ".claude is not a folder" in told.err) == (6, True)
    assert picture() == before


def test_a_read_only_folder_is_refused_before_anything_is_done(project, setup, picture, monkeypatch):
    (project / ".codex").mkdir()
    before = picture()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *rest: not str(path).endswith(".codex") and may(path, *rest))

    told = setup("codex")
    assert (told.code, ".codex is read-only" in told.err) == (6, True)
    assert picture() == before


def test_a_read_only_file_is_refused(project, setup, picture):
    (project / "AGENTS.md").write_text("x\n")
    (project / "AGENTS.md").chmod(0o444)
    before = picture()

    told = setup("codex")
    assert (told.code, "AGENTS.md is read-only" in told.err) == (6, True)
    assert picture() == before


def test_a_link_inside_the_project_is_followed(project, setup, picture):
    (project / "docs").mkdir()
    (project / "docs/agents.md").write_text("# Ours\n")
    (project / "AGENTS.md").symlink_to("docs/agents.md")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    before = picture()

    assert setup("claude", "codex").code == 0
    assert (project / "AGENTS.md").is_symlink()
    assert (project / "docs/agents.md").read_text().count("taskpit:begin v1 for=claude,codex") == 1
    assert setup("claude", "codex", "--check").code == 0
    assert setup("codex", "claude", "--remove").code == 0
    assert picture() == before


def test_a_file_that_leads_to_agents_md_does_not_name_it(project, setup):
    setup("codex")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert setup("claude").code == 0
    assert "@AGENTS.md" not in (project / "AGENTS.md").read_text()
    assert setup("claude", "codex", "--check").code == 0
    assert setup("claude", "codex", "--remove").code == 0
    assert (project / "CLAUDE.md").read_text() == ""  # the link is not ours, and leads somewhere
    assert setup("claude").code == 0


@pytest.mark.parametrize("target", ["../outside.md", "nowhere.md"])
def test_a_link_that_leads_away_is_refused(project, setup, picture, target):
    (project.parent / "outside.md").write_text("theirs\n")
    (project / "AGENTS.md").symlink_to(target)
    before = picture()

    told = setup("agents-md")
    assert (told.code, "leads" in told.err) == (6, True)
    assert picture() == before
    assert (project.parent / "outside.md").read_text() == "theirs\n"


def test_a_file_that_changes_meanwhile_is_not_lost(project, setup):
    path = project / "AGENTS.md"
    path.write_text("old\n")

    def somebody_saves(call, target):
        if call == "stat" and target == str(path):
            path.write_text("somebody's new text\n")

    fs.set_hook(somebody_saves)
    try:
        told = setup("agents-md")
    finally:
        fs.set_hook(None)

    assert (told.code, "changed by another program" in told.err) == (6, True)
    assert path.read_text() == "somebody's new text\n"


def test_a_full_disk_leaves_what_was_there(project, setup, picture):
    rich(project)
    before = picture()

    def full(call, _):
        if call == "write":
            raise OSError(28, "No space left on device")

    fs.set_hook(full)
    try:
        assert setup("agents-md").code == 8
    finally:
        fs.set_hook(None)
    assert picture() == before


def test_only_showing(project, setup, picture):
    told = setup("claude", "--print")

    assert told.code == 0
    assert '"mcpServers"' in told.out
    assert "--- .claude/skills/taskpit/SKILL.md" in told.out
    assert picture() == {}


def test_bad_words(project, setup, picture):
    told = setup("vim")
    assert (told.code, "claude, codex" in told.err) == (6, True)
    assert setup("claude", "--check", "--remove").code == 6
    assert setup("claude", "--project", "nowhere").code == 6
    assert picture() == {}


def test_the_project_is_the_checkout_around_us(project, setup, monkeypatch):
    (project / ".git/refs").mkdir(parents=True)
    (project / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(project / "deep/er")

    assert setup("agents-md").code == 0
    assert (project / "AGENTS.md").exists()
    assert setup("agents-md", "--project", ".").code == 0
    assert (project / "deep/er/AGENTS.md").exists()


def test_for_programs(project, setup):
    told = setup("codex", "--json").data

    skill = ".agents/skills/taskpit/SKILL.md"
    assert told["changed"] == ["AGENTS.md", skill, ".codex/config.toml", ".codex/hooks.json"]
    assert {part["standing"] for part in setup("codex", "--check", "--json").data["parts"]} == {"fine"}


def test_an_entry_is_taken_out_of_every_file_that_has_it(project, setup, picture):
    setup("opencode")
    text = '{\n  // mine\n  "model": "m"\n}\n'
    (project / "opencode.jsonc").write_text(text)
    assert setup("opencode", "--remove").code == 0
    assert list(picture()) == ["opencode.jsonc"]
    setup("opencode")
    assert setup("opencode", "--remove").code == 0
    assert (project / "opencode.jsonc").read_text() == text


def test_hooks_of_somebodys_own_are_said_to_lack_ours(project, setup):
    path = project / ".codex/hooks.json"
    path.parent.mkdir()
    path.write_text('{"hooks": {}}')

    told = setup("codex")
    assert told.code == 0
    assert ".codex/hooks.json is your own" in told.out
    assert "pit hook session-start --agent codex" in told.out
    assert "as it should be" not in setup("codex").out
    assert setup("codex", "--check").code == 7
    path.write_text(json.dumps({**json.loads(_text_of("codex", ".codex/hooks.json")), "description": "mine"}))
    assert setup("codex", "--check").code == 0
    mine = path.read_text()
    assert setup("codex", "--remove").code == 0
    assert path.read_text() == mine


def _text_of(agent, path):
    return next(part.text for part in AGENTS[agent] if getattr(part, "path", "") == path)


def test_the_plugin_is_well_formed(project, setup):
    setup("claude")
    home = project / ".claude/skills/taskpit"

    assert json.loads((home / ".claude-plugin/plugin.json").read_text())["name"] == "taskpit"
    hooks = json.loads((home / "hooks/hooks.json").read_text())["hooks"]
    commands = {event: groups[0]["hooks"][0]["command"] for event, groups in hooks.items()}
    assert commands == {
        "SessionStart": "pit hook session-start 2>/dev/null || true",
        "PostToolUse": "pit hook tool-used 2>/dev/null || true",
        "Stop": "pit hook stop 2>/dev/null || true",
    }
    for command in commands.values():  # without `pit` a session goes on as if there were no hook
        ran = subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/nowhere"}, capture_output=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    head = (home / "SKILL.md").read_text().split("---")[1]
    assert "name: taskpit\n" in head
    assert "description: " in head


@pytest.mark.skipif(not os.environ.get("TASKPIT_LONG"), reason="fetches the agent from npm: TASKPIT_LONG=1")
def test_claude_accepts_the_plugin(project, setup, tmp_path):
    setup("claude")
    command = ["npx", "--yes", "@anthropic-ai/claude-code", "plugin", "validate", "--strict", ".claude/skills/taskpit"]
    env = {**os.environ, "npm_config_cache": str(tmp_path / "npm")}
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Validation passed" in ran.stdout


@pytest.mark.parametrize(("agent", "name"), [("claude", "CLAUDE.md"), ("gemini", "GEMINI.md"), ("qwen", "QWEN.md")])
def test_a_file_that_we_make_does_not_hide_agents_md(project, setup, picture, agent, name):
    (project / "AGENTS.md").write_text("# Ours\n")
    before = picture()
    assert setup(agent).code == 0
    assert "\n@AGENTS.md\n" in (project / name).read_text()
    assert setup(agent, "--check").code == 0
    assert setup(agent, "--remove").code == 0
    assert picture() == before
    (project / name).write_text("# Only this\n")
    assert setup(agent).code == 0
    assert "@AGENTS.md" not in (project / name).read_text()


def test_the_skill_stays_until_the_last_who_uses_it_goes(project, setup, picture):
    before = picture()
    skill = project / ".agents/skills/taskpit/SKILL.md"
    assert setup("codex", "opencode", "antigravity").code == 0
    assert setup("opencode", "codex", "--remove").code == 0
    assert skill.exists()
    assert setup("antigravity", "--check").code == 0
    assert setup("antigravity", "--remove").code == 0
    assert picture() == before


@pytest.mark.parametrize(
    ("says", "code", "word"),
    [
        ("taskpit: pit mcp - Connected", 0, "yes"),
        ("taskpit: pit mcp - Pending approval (run `claude` to approve)", 7, "no"),
        ("No MCP servers configured.", 7, "no"),
    ],
)
def test_check_asks_the_agent_itself(project, setup, tmp_path, monkeypatch, says, code, word):
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntest \"$*\" = 'mcp list' && test -z \"$TASKPIT_TOKEN\" && echo '{says}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TASKPIT_TOKEN", "secret")
    assert setup("claude").code == 0
    said = setup("claude", "--check", "--json")
    assert (said.code, said.data["listed"]) == (code, word)

"""The real agent CLIs in a test: where they are, and how each is pointed at the stand-in model and at nothing else."""

from __future__ import annotations

import json
import os
import subprocess

from waits import PATIENCE

#: What is in the cache that `make test-agents` fills: the directory with the programs.
PROGRAMS = os.environ.get("TASKPIT_AGENTS", "")
#: npm packages by preset; aider is from PyPI.
PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-ai",
    "qwen": "@qwen-code/qwen-code",
    "copilot": "@github/copilot",
    "goose": "@aaif/goose",
    "aider": "aider-chat",
}
#: Models as they are named in these runs: one that the price table knows, and one as each CLI wants it.
MODELS = {
    "claude": "claude-sonnet-4-5",
    "codex": "gpt-5.1-codex",
    "gemini": "gemini-2.5-pro",
    "opencode": "standin/claude-sonnet-4-5",
    "qwen": "qwen3-coder-plus",
    "copilot": "gpt-5.1",
    "goose": "gpt-4.1",
    "aider": "openai/gpt-4.1-mini",
}
#: None of these may speak to anybody else, or look for news.
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "GEMINI_TELEMETRY_ENABLED": "false",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "COPILOT_OFFLINE": "true",
    "COPILOT_AUTO_UPDATE": "false",
    "NO_UPDATE_NOTIFIER": "1",
}


def installed():
    """The presets whose program is here."""
    return [name for name in PACKAGES if PROGRAMS and os.path.exists(f"{PROGRAMS}/{name}")]


def version(name):
    """What it calls itself."""
    done = subprocess.run(
        [f"{PROGRAMS}/{name}", "--version"], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return next(word.rstrip(".") for word in done.stdout.split() if word[0].isdigit())


def _write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content if isinstance(content, str) else json.dumps(content, indent=2))


def furnish(home, url):
    """A home in which every CLI talks to the model at this address; the variables for it."""
    home = str(home)
    _write(
        f"{home}/.codex/config.toml",
        f"""\
model = "{MODELS["codex"]}"
model_provider = "standin"
check_for_update_on_startup = false
[analytics]
enabled = false
[otel]
exporter = "none"
[model_providers.standin]
name = "standin"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 0
stream_max_retries = 0
""",
    )
    gemini = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"name": MODELS["gemini"]},
        "telemetry": {"enabled": False},
    }
    _write(f"{home}/.gemini/settings.json", gemini)
    qwen = {
        **gemini,
        "security": {"auth": {"selectedType": "openai"}},
        "model": {"name": MODELS["qwen"], "generationConfig": {"maxRetries": 0}},
    }
    _write(f"{home}/.qwen/settings.json", qwen)
    provider, _, model = MODELS["opencode"].partition("/")
    opencode = {
        "model": MODELS["opencode"],
        "small_model": MODELS["opencode"],
        "autoupdate": False,
        "share": "disabled",
        "provider": {
            provider: {
                "npm": "@ai-sdk/openai-compatible",
                "name": provider,
                "options": {"baseURL": f"{url}/v1", "apiKey": "x"},
                "models": {model: {"name": model, "cost": {"input": 3, "output": 15}}},
            }
        },
    }
    _write(f"{home}/.config/opencode/opencode.json", opencode)
    # It would look for today's prices elsewhere.
    known = {"max_input_tokens": 1_000_000, "input_cost_per_token": 4e-07, "output_cost_per_token": 1.6e-06}
    prices = {MODELS["aider"].rpartition("/")[2]: {**known, "litellm_provider": "openai", "mode": "chat"}}
    _write(f"{home}/.aider/caches/model_prices_and_context_window.json", prices)
    return {
        **QUIET,
        "HOME": home,
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-standin",
        "OPENAI_API_KEY": "sk-standin",
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_MODEL": MODELS["qwen"],
        "GEMINI_API_KEY": "standin",
        "GOOGLE_GEMINI_BASE_URL": url,
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "sk-standin",
        "COPILOT_MODEL": MODELS["copilot"],
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": MODELS["goose"],
        "GOOSE_DISABLE_KEYRING": "1",
        "OPENAI_HOST": url,
        "OPENAI_API_BASE": f"{url}/v1",
        "AIDER_EDIT_FORMAT": "whole",
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_DATA_HOME": f"{home}/.local/share",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }


def trust(home, folder):
    """A person has said once that this folder may be trusted, as `pit setup` asks them to."""
    with open(f"{home}/.codex/config.toml", "a", encoding="utf-8") as file:
        file.write(f'[projects."{folder}"]\ntrust_level = "trusted"\n')
    for name in (".gemini", ".qwen"):
        _write(f"{home}/{name}/trustedFolders.json", {folder: "TRUST_FOLDER"})
    _write(f"{home}/.copilot/config.json", {"trustedFolders": [folder]})
    _write(f"{home}/.claude/settings.json", {"enableAllProjectMcpServers": True})


def carrying(marker):
    """Processes that have this text in their environment."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if marker.encode() in file.read():
                        found.append(int(name))
            except OSError:
                continue
    return found

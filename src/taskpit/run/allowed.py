"""What agents may see and run: variables of the environment, checks that a person has named. Pure.

An agent reads the internet and may be talked into telling what it sees. So it sees a list of what every program
needs, what its preset names, and what a person adds; a plain command sees what we see. Neither ever sees what
opens our own doors: our token, the database's password.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

#: What every program needs: where things are, who runs it, how people here write, how the network is reached.
ALLOWED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
    *("TMPDIR", "TMP", "TEMP", "XDG_*", "PWD", "HOSTNAME", "CI", "EDITOR", "PAGER", "DISPLAY", "WAYLAND_DISPLAY"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("VIRTUAL_ENV", "CONDA_*", "PYENV_*", "PYTHONPATH", "NVM_*", "NODE_PATH", "NODE_ENV", "JAVA_HOME", "GOPATH"),
    *("GOROOT", "CARGO_HOME", "RUSTUP_HOME", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "MAKEFLAGS", "DOCKER_HOST"),
    *(
        "TASKPIT_TASK",
        "TASKPIT_FILE",
        "TASKPIT_ATTEMPT",
        "TASKPIT_AS",
        "TASKPIT_ROLE",
        "TASKPIT_RUN_DIR",
        "TASKPIT_DIR",
    ),
    *("TASKPIT_SLOT", "TRACEPARENT"),
)
#: What opens our own doors.
NEVER = (
    "TASKPIT_TOKEN",
    "TASKPIT_NOTIFY_*",
    "TASKPIT_*_TOKEN",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "TASKPIT_DATABASE*",
)


def _is_like(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def without_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """The same without what opens our own doors."""
    return {name: value for name, value in env.items() if not _is_like(name, NEVER)}


def allowed(env: Mapping[str, str], *more: str) -> dict[str, str]:
    """What an agent may see of it; `more` are patterns beside those for everybody."""
    kept = (*ALLOWED, *more)
    return {name: value for name, value in without_secrets(env).items() if _is_like(name, kept)}


# -- which checks may be run where a person has named them -----------------------------------------
# Pure: a check and patterns in, yes or no out.
# A check is text for a shell, and `make test; id` is like `make *`. So it is taken apart first: only one plain command
# without anything that the shell would act on can be like a pattern, word by word. What is spelled exactly as one of
# the patterns is what the person has named, whatever is in it.


#: What a shell acts on outside of quotes, and some of it inside of them.
ACTIVE = frozenset(";&|<>()$`\\\n\r*?[]{}~#!")


def is_allowed(check: str, patterns: Iterable[str]) -> bool:
    """Whether this check is one of those that were named."""
    named = list(patterns)
    if check in named:
        return True
    words = _words(check)
    return bool(words) and any(_follows(words, pattern.split()) for pattern in named)


def _words(check: str) -> list[str]:
    """The words of a plain command; none if it is more than that."""
    import shlex

    if ACTIVE & set(check):
        return []
    try:
        return shlex.split(check)
    except ValueError:  # a quote that does not end
        return []


def _follows(words: list[str], wanted: list[str]) -> bool:
    """Word by word; a last `*` is any further words."""
    if wanted[-1:] == ["*"] and len(words) >= len(wanted):
        words = [*words[: len(wanted) - 1], "*"]
    return len(words) == len(wanted) and all(fnmatchcase(one, want) for one, want in zip(words, wanted, strict=True))

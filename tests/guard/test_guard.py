"""What stands before every server of ours: who may ask, and what never reaches the application."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from taskpit.errors import Invalid
from taskpit.store.http.guard import GuardRules, PageGuard, new_token
from taskpit.store.http.listening import is_loopback, refuse_exposure

TOKEN = "a-token-of-this-test"
HTML = {"accept": "text/html,*/*"}


class Inner:
    """The application behind the guard: notes what reaches it."""

    def __init__(self):
        self.asked = []

    async def __call__(self, scope, receive, send):
        body = b""
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            body = (await receive())["body"]
        self.asked.append((scope, body))
        headers = [(b"content-type", b"text/plain"), (b"X-Frame-Options", b"ALLOWALL")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"inside"})


class Answer:
    def __init__(self, sent):
        self.status = sent[0]["status"]
        self.headers = [(key.decode().lower(), value.decode()) for key, value in sent[0]["headers"]]
        self.body = b"".join(message.get("body", b"") for message in sent[1:])

    def header(self, name):
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def code(self):
        return json.loads(self.body)["error"]["code"]


@pytest.fixture
def inner():
    return Inner()


@pytest.fixture
def ask(inner):
    def ask(method="GET", target="/", headers=None, body=(b"",), token=TOKEN, **rules):
        path, _, query = target.partition("?")
        given = {"host": "127.0.0.1:8000", **({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        pairs = [(key.encode(), value.encode("latin-1")) for key, value in given.items() if value is not None]
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": pairs}
        parts = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        parts[-1]["more_body"] = False
        sent = []

        async def receive():
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        asyncio.run(PageGuard(inner, GuardRules(token=TOKEN, **rules))(scope, receive, send))
        return Answer(sent)

    return ask


def test_a_good_request_goes_through(ask, inner):
    answer = ask("POST", "/mcp?x=1&token=junk&y=%C3%A9", body=(b"ab", b"", b"cd"))

    assert (answer.status, answer.body) == (200, b"inside")
    scope, body = inner.asked[0]
    assert body == b"abcd"
    assert scope["query_string"] == b"x=1&y=%C3%A9"  # the token is nobody else's business


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", None, "localhost@evil.example", "[::2]:8000"],
)
def test_another_name_is_not_ours(ask, inner, host):
    answer = ask(headers={"host": host})

    assert (answer.status, answer.code) == (421, "wrong_host")
    assert inner.asked == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "[::1]:8000", "127.0.0.1"])
def test_names_of_this_machine_are_ours(ask, host):
    assert ask(headers={"host": host}).status == 200


def test_two_hosts_are_none(inner):
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b""}
    scope["headers"] = [
        (b"host", b"127.0.0.1"),
        (b"host", b"evil.example"),
        (b"authorization", f"Bearer {TOKEN}".encode()),
    ]
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(PageGuard(inner, GuardRules(token=TOKEN))(scope, None, send))
    assert Answer(sent).code == "wrong_host"


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1:9000",
        "http://localhost:8000",
        "file://127.0.0.1:8000",
        "http://[",
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_pages_of_others_may_not_ask(ask, inner, method, origin):
    answer = ask(method, headers={"origin": origin})

    assert (answer.status, answer.code) == (403, "foreign_origin")
    assert inner.asked == []


def test_our_own_pages_may_ask(ask):
    assert ask("POST", headers={"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}).status == 200


def test_browsers_tell_of_other_sites(ask, inner):
    assert ask("POST", headers={"sec-fetch-site": "cross-site"}).code == "foreign_origin"
    assert inner.asked == []
    assert ask("GET", headers={"sec-fetch-site": "cross-site"}).status == 200  # a link somebody followed


@pytest.mark.parametrize("token", ["", "wrong-token-of-somebody", TOKEN[:-1], TOKEN + "x", "tökén"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_without_the_token_nothing_is_told(ask, inner, method, token):
    answer = ask(method, token=token)

    assert (answer.status, answer.code) == (401, "unauthorized")
    assert "Bearer" in answer.header("www-authenticate")
    assert TOKEN.encode() not in answer.body
    assert inner.asked == []


def test_a_token_in_the_address(ask, inner):
    assert ask("POST", f"/mcp?token={TOKEN}", token="").status == 200
    assert ask("GET", f"/mcp?token={TOKEN}", token="").status == 200
    assert ask("POST", "/mcp?token=wrong-wrong-wrong-wrong", token="").status == 401
    assert len(inner.asked) == 2


def test_a_browser_gets_a_cookie_and_a_clean_address(ask, inner):
    answer = ask("GET", f"//evil.example/a b?token={TOKEN}&tab=done", token="", headers=HTML)

    assert answer.status == 303
    place, _, word = answer.header("location").partition("#word=")
    assert place == "/evil.example/a%20b?tab=done"
    cookie = answer.header("set-cookie")
    assert cookie.startswith("taskpit-8000=")
    assert cookie.endswith("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict")
    assert TOKEN not in cookie + word
    assert inner.asked == []
    cookie = cookie.partition(";")[0]
    assert ask("GET", token="", headers={**HTML, "cookie": f"a=1; {cookie}", "x-csrf-token": word}).status == 200
    assert ask("GET", f"/events?word={word}&a=1", token="", headers={"cookie": cookie}).status == 200
    assert inner.asked[-1][0]["query_string"] == b"a=1"  # the application is not told
    other = {"host": "127.0.0.1:8001", "cookie": cookie, "x-csrf-token": word}  # another server's is not this one's
    assert ask("GET", token="", headers=other).status == 401


@pytest.fixture
def session(ask):
    """A browser's cookie, and the word that its pages know."""
    answer = ask("GET", f"/?token={TOKEN}", token="", headers=HTML)
    return answer.header("set-cookie").partition(";")[0], answer.header("location").partition("#word=")[2]


@pytest.mark.parametrize("door", ["", "<p>{told}</p>"])
def test_a_cookie_alone_shows_nothing(ask, inner, session, door):
    """A browser sends it to every port of this machine: whoever listens there has it."""
    cookie, word = session
    for headers in ({}, HTML, {"x-csrf-token": "x"}, {"x-csrf-token": ""}, {"x-csrf-token": TOKEN}):
        for target in ("/", "/?word=x", "/?word=", "/?csrf=" + word):
            answer = ask("GET", target, token="", headers={"cookie": cookie, **headers}, door=door)
            assert answer.status == (200 if door and headers == HTML and "word=" not in target else 401)
            assert word.encode() not in answer.body
    assert inner.asked == []
    assert word not in cookie
    assert ask("GET", token="", headers={"cookie": "", "x-csrf-token": word}).status == 401  # nor the word


def test_a_session_ends_and_is_renewed_while_it_is_used(ask, inner, session, monkeypatch):
    cookie, word = session
    now = time.time()
    headers = {"cookie": cookie, "x-csrf-token": word}
    assert ask(token="", headers=headers).header("set-cookie") is None
    monkeypatch.setattr(time, "time", lambda: now + 7 * 3600)
    fresh = ask(token="", headers=headers).header("set-cookie").partition(";")[0]
    assert fresh != cookie
    monkeypatch.setattr(time, "time", lambda: now + 13 * 3600)
    assert ask(token="", headers=headers).status == 401
    assert ask(token="", headers={**headers, "cookie": fresh}).status == 200
    until, name, mac = cookie.partition("=")[2].split(".")
    for forged in (f"{int(until) + 99999}.{name}.{mac}", f"{until}.other.{mac}", f"{until}.{name}.", "..", TOKEN):
        assert ask(token="", headers={**headers, "cookie": f"taskpit-8000={forged}"}).status == 401


def test_what_is_public_still_needs_our_name(ask, inner):
    public = {"public": ("/healthz", "/static/"), "token": ""}
    for path in ("/healthz", "/static/app.js"):
        assert ask("GET", path, **public).status == 200
        assert ask("GET", path, headers={"host": "evil.example"}, **public).status == 421
        assert ask("GET", path, headers={"origin": "http://127.0.0.1:1"}, **public).status == 403
        assert ask("POST", path, **public).status == 401
    for path in ("/healthz/x", "/static", "/", "/staticx"):
        assert ask("GET", path, **public).status == 401


def test_a_cookie_alone_changes_nothing(ask, inner, session):
    value, word = session
    cookie = {"cookie": value, "origin": "http://127.0.0.1:8000"}
    form = {**cookie, "content-type": "application/x-www-form-urlencoded; charset=utf-8"}

    for headers, body in [
        (cookie, b""),
        ({**cookie, "x-csrf-token": "x"}, b""),
        (cookie, f"csrf={word}".encode()),
        (form, b"a=1"),
    ]:
        assert ask("POST", token="", headers=headers, body=(body,)).code == "csrf"
    assert inner.asked == []
    assert ask("POST", token="", headers={**cookie, "x-csrf-token": word}).status == 200
    assert ask("POST", token="", headers=form, body=(f"a=1&csrf={word}".encode(),)).status == 200
    assert inner.asked[-1][1] == f"a=1&csrf={word}".encode()
    assert TOKEN not in word


def test_a_large_request_is_refused_before_it_is_read(ask, inner):
    assert ask("POST", headers={"content-length": "101"}, largest_body=100).code == "too_large"
    assert ask("POST", body=(b"x" * 60, b"x" * 41, b"never read"), largest_body=100).status == 413
    assert inner.asked == []
    assert ask("POST", body=(b"x" * 60, b"x" * 40), largest_body=100).status == 200


def test_read_only_means_it(ask, inner):
    for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
        assert ask(method, read_only=True).code == "read_only"
    assert inner.asked == []
    assert ask("GET", read_only=True).status == 200


@pytest.mark.parametrize("good", [True, False])
def test_every_answer_carries_the_headers(ask, good):
    answer = ask(token=TOKEN if good else "")

    assert answer.header("x-frame-options") == "DENY"  # also where the application says otherwise
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cache-control") == "no-store"
    policy = answer.header("content-security-policy")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_people_read_words_programs_read_json(ask):
    assert ask(token="", headers=HTML).body.decode().startswith("the token is missing or wrong\n")
    assert json.loads(ask(token="").body)["ok"] is False
    assert ask("HEAD", token="").body == b""


def test_web_sockets_are_closed(inner):
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    asyncio.run(PageGuard(inner, GuardRules(token=TOKEN))({"type": "websocket"}, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert inner.asked == []


def test_a_connection_that_ends_early_changes_nothing(ask, inner):
    assert ask("POST", body=(b"half",), headers={"x": "y"}).status == 200
    inner.asked.clear()
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b""}
    scope["headers"] = [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())]
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(PageGuard(inner, GuardRules(token=TOKEN))(scope, receive, send))
    assert Answer(sent).status == 400
    assert inner.asked == []


def test_a_weak_token_is_refused(inner):
    for token in ("", "short", "with a space in the middle", "semicolon;semicolon;"):
        with pytest.raises(Invalid, match="16 or more"):
            PageGuard(inner, GuardRules(token=token))
    assert new_token() != new_token()
    PageGuard(inner, GuardRules(token=new_token()))


def test_other_machines_are_let_in_only_on_two_words():
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        assert is_loopback(host)
        refuse_exposure(host, "", exposed=False)
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", ""):
        assert not is_loopback(host)
        for token, exposed in (("", False), (TOKEN, False), ("", True)):
            with pytest.raises(Invalid, match="other machines"):
                refuse_exposure(host, token, exposed=exposed)
        refuse_exposure(host, TOKEN, exposed=True)

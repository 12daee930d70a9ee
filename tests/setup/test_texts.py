"""Blocks in texts and entries in JSON: whatever was there before is there again afterwards, to the byte."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskpit.errors import Invalid
from taskpit.setup.text_edits import (
    HASH,
    MARKDOWN,
    drop_entry,
    fresh_text,
    is_ours,
    put_block,
    put_entry,
    read_block,
    read_entry,
    read_object,
    stamped,
    take_block,
)

WORDS = "## Tasks\n\nRun `pit prime`.\n"
ENTRY = {"command": "pit", "args": ["mcp"]}

texts = st.lists(
    st.sampled_from(
        [b"# Title", b"", b" ", b"\xc3\xa9", b"\xff\xfe", b"\n", b"\r\n", b"\r", b"- item", b"\xef\xbb\xbf", b"```"]
    ),
    max_size=8,
).map(b"".join)


@given(data=st.none() | texts | st.binary(max_size=30), comment=st.sampled_from([MARKDOWN, HASH]))
def test_a_block_comes_and_goes_without_a_trace(data, comment):
    inside = put_block(data, WORDS, "claude", comment)

    assert inside != data
    found = read_block(inside, comment)
    assert (found.text, found.people, found.made) == (WORDS, ("claude",), data is None)
    assert put_block(inside, WORDS, "claude", comment) == inside
    assert take_block(inside, "claude", comment) == data


@given(data=st.none() | texts, comment=st.sampled_from([MARKDOWN, HASH]))
def test_a_block_shared_by_several_goes_with_the_last(data, comment):
    one = put_block(data, WORDS, "codex", comment)
    two = put_block(one, WORDS, "cursor", comment)

    assert read_block(two, comment).people == ("codex", "cursor")
    assert take_block(two, "cursor", comment) == one
    assert take_block(two, "claude", comment) == two
    assert take_block(take_block(two, "codex", comment), "cursor", comment) == data


@given(data=texts, more=st.sampled_from([b"more", b"\nmore\n", b"\r\nmore\r\n"]))
def test_what_was_written_after_the_block_stays(data, more):
    inside = put_block(data, WORDS, "claude", MARKDOWN)
    left = take_block(inside + b"\n" + more, "claude", MARKDOWN)

    assert left.endswith(more)
    assert left.startswith(data)


def test_an_older_block_is_replaced_where_it_stands():
    old = b"# A\n\n<!-- taskpit:begin v0 for=claude -->\r\nold words\r\n<!-- taskpit:end -->\r\n\n# B\n"
    new = put_block(old, WORDS, "claude", MARKDOWN)

    assert new.startswith(b"# A\n\n<!-- taskpit:begin v1 for=claude sum=4c3e8678 -->\r\n## Tasks\r\n")
    assert new.endswith(b"<!-- taskpit:end -->\r\n\n# B\n")
    assert b"old words" not in new


@pytest.mark.parametrize(
    "data",
    [
        b"<!-- taskpit:begin v1 for=claude -->\nno end\n",
        b"no begin\n<!-- taskpit:end -->\n",
        b"<!-- taskpit:end -->\n<!-- taskpit:begin v1 for=claude -->\n",
        b"<!-- taskpit:begin v1 -->\n<!-- taskpit:end -->\n" * 2,
    ],
)
def test_markers_out_of_order_are_not_touched(data):
    with pytest.raises(Invalid, match="markers"):
        put_block(data, WORDS, "claude", MARKDOWN)
    with pytest.raises(Invalid, match="markers"):
        take_block(data, "claude", MARKDOWN)


def test_the_marker_in_a_sentence_is_no_marker():
    data = b"Say `<!-- taskpit:end -->` to end it.\n"

    assert take_block(put_block(data, WORDS, "claude", MARKDOWN), "claude", MARKDOWN) == data


# -- JSON ------------------------------------------------------------------------------------------

scalars = st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=8)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
names = st.text(max_size=6).filter(lambda name: name not in ("taskpit", "mcpServers"))
servers = st.dictionaries(names, values, max_size=3)
documents = st.dictionaries(names, values, max_size=3)
spellings = st.sampled_from(
    [
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"separators": (",", ":")},
        {"separators": (", ", ": ")},
        {"indent": 0, "ensure_ascii": False},
    ]
)


def spelled(document, how, newline, comments):
    text = json.dumps(document, **how)
    if comments:
        text = f'// a remark {{\n{text[0]} /* "x": {{ */ {text[1:]}\n// the end\n'
    return text.replace("\n", newline)


@given(
    document=documents,
    inner=st.none() | servers,
    how=spellings,
    newline=st.sampled_from(["\n", "\r\n"]),
    comments=st.booleans(),
    end=st.sampled_from(["", "\n", "\r\n\r\n", "  "]),
    first=st.booleans(),
)
def test_an_entry_comes_and_goes_without_a_trace(document, inner, how, newline, comments, end, first):
    if inner is not None:
        document = {"mcpServers": inner, **document} if first else {**document, "mcpServers": inner}
    text = spelled(document, how, newline, comments) + end
    inside = put_entry(text, "mcpServers", "taskpit", ENTRY)

    assert read_object(inside) == {**document, "mcpServers": {**(inner or {}), "taskpit": ENTRY}}
    assert read_entry(inside, "mcpServers", "taskpit") == ENTRY
    assert drop_entry(inside, "mcpServers", "taskpit", ENTRY) == text


@pytest.mark.parametrize(
    "text", ["{}", "{ }", "{\n}\n", '{"mcpServers":{}}', '{"mcpServers": {}}', '\ufeff{"a": [1, ],}']
)
def test_small_files(text):
    inside = put_entry(text, "mcpServers", "taskpit", ENTRY)

    assert read_entry(inside, "mcpServers", "taskpit") == ENTRY
    assert drop_entry(inside, "mcpServers", "taskpit", ENTRY) == text


def test_it_looks_as_one_would_write_it():
    text = '{\n  "mcpServers": {\n    "other": {"command": "x"}\n  }\n}\n'

    assert put_entry(text, "mcpServers", "taskpit", ENTRY) == (
        '{\n  "mcpServers": {\n    "taskpit": {"command": "pit", "args": ["mcp"]},\n'
        '    "other": {"command": "x"}\n  }\n}\n'
    )


def test_an_entry_that_was_moved_is_found_all_the_same():
    for text in (
        '{"mcpServers": {"a": 1, "taskpit": {"command": "pit", "args": ["mcp"]}}}',
        '{"mcpServers": {"a": 1, "taskpit": {"command": "pit", "args": ["mcp"]}, "b": 2}}',
        '{"mcpServers": {\n"a": 1, // why\n"taskpit": {"command": "pit", "args": ["mcp"]},}}',
    ):
        left = read_object(drop_entry(text, "mcpServers", "taskpit", ENTRY))["mcpServers"]
        assert "taskpit" not in left
        assert left["a"] == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "[]",
        "{",
        '{"a" 1}',
        '{"a": 1} x',
        '{"a": 1, "a": 2}',
        '{"mcpServers": []}',
        '{"mcpServers": null}',
        "{a: 1}",
        "[" * 500,
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text):
    with pytest.raises(Invalid):
        put_entry(text, "mcpServers", "taskpit", ENTRY)


@given(values)
def test_json_is_read_as_json_is(value):
    assert read_object(json.dumps({"x": value}, indent=1)) == {"x": value}


def test_a_fresh_file_is_json():
    assert json.loads(fresh_text("mcp", "taskpit", ENTRY)) == {"mcp": {"taskpit": ENTRY}}


def test_a_stamp_tells_of_changes():
    text = stamped("a\n<!-- pit setup v1 00000000 -->\nb\n")

    assert is_ours(text)
    assert not is_ours(text.replace("b", "c"))
    assert not is_ours("a\nb\n")
    assert not is_ours("a\n<!-- pit setup v1 00000000 -->\nb\n")


def test_toml_keeps_its_meaning():
    data = b'model = "x"\n[mcp_servers.other]\ncommand = "y"'
    inside = put_block(data, '[mcp_servers.taskpit]\ncommand = "pit"\n', "codex", HASH)

    assert tomllib.loads(inside.decode()) == {
        "model": "x",
        "mcp_servers": {"other": {"command": "y"}, "taskpit": {"command": "pit"}},
    }


OURS = '"taskpit": {"command": "pit", "args": ["mcp"]}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            f'{{"mcpServers": {{\n  "a": {{}}, // pinned: see OPS-12\n  // the queue of the team:\n  {OURS}\n}}}}',
            '{"mcpServers": {\n  "a": {} // pinned: see OPS-12\n  // the queue of the team:\n}}',
        ),
        (f'{{"mcpServers": {{"a": {{}}, // why\n{OURS}}}}}', '{"mcpServers": {"a": {} // why\n}}'),
        (f'{{"mcpServers": {{"a": {{}}, /* , */ {OURS} , }}}}', '{"mcpServers": {"a": {}, /* , */  }}'),
        (f'{{"mcpServers": {{"a": {{}}, {OURS} /* x */, "b": 1}}}}', '{"mcpServers": {"a": {}, /* x */ "b": 1}}'),
        (f'{{"mcpServers": {{ // ours\n  {OURS} , // end\n}}}}', '{"mcpServers": { // ours\n    // end\n}}'),
        (f'{{"mcpServers": {{"a": {{}},\r\n  {OURS}\r\n}}}}', '{"mcpServers": {"a": {}\r\n}}'),
    ],
)
def test_what_people_wrote_around_an_entry_stays(text, left):
    assert drop_entry(text, "mcpServers", "taskpit", ENTRY) == left

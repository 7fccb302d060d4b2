"""Chats out and in: our own JSON loses nothing, other programs' exports are survived."""

import contextlib
import json
import math
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.transfer.archive import file_name, write_archive, write_text
from app.transfer.chat_json import from_json, to_json
from app.transfer.chat_markdown import to_markdown
from app.transfer.reading import read_file
from app.transfer.report import Report, TransferError
from app.transfer.trees import in_order
from engine.events import Statistics
from engine.options import SamplingOptions

USUAL = SamplingOptions(temperature=0.3)

REPLY = ReplyRecord(
    *("finished", "length", "It broke.", "Mend it.", (1, 2, 3)),
    *(((0, SamplingOptions()), (2, SamplingOptions(temperature=1.5, stop_texts=("a", "\ud800")))),),
    *(2**63 - 1, "SmolLM2", "cpu", "q4", Statistics(9, 8, 7, 0.5, 6.5, 4), "ab12"),
)
CHAT = ChatRecord(
    *(0, "Tea \ud800", True, 1.5, 2.5, None, 1, "a draft", "Be brief."),
    *(SamplingOptions(seed=7), True, True),
)
MESSAGES = [
    MessageRecord(1, 0, None, "user", "Why?\0\n😀", 3.5, None, 3),
    MessageRecord(2, 0, 1, "assistant", "Because.", 4.5, reply=REPLY),
    MessageRecord(3, 0, 1, "assistant", "So.", 4.6, reply=ReplyRecord("interrupted")),
    MessageRecord(4, 0, 3, "user", "", 5.0),
    MessageRecord(5, 0, None, "user", "other", 6.0),
]


def reread(chat: ChatRecord, messages: list[MessageRecord]):
    return from_json(to_json(chat, messages, made_by="Smoldesk"))


def test_json_loses_nothing() -> None:
    assert reread(CHAT, MESSAGES) == (CHAT, MESSAGES)


texts = st.text(max_size=8) | st.just("\ud83d")


@given(st.lists(st.tuples(st.integers(0, 20), texts), max_size=15), st.integers(0, 20), texts)
def test_any_tree_comes_back_as_it_was(shape, chosen, title) -> None:
    messages = [
        MessageRecord(
            *(10 + n, 0, 10 + parent % n if parent and n else None, "user", text, float(n)),
            selected_id=10 + chosen,
        )
        for n, (parent, text) in enumerate(shape)
    ]
    chat = ChatRecord(0, title, selected_id=10 + chosen)
    assert reread(chat, messages) == in_order(chat, messages)


def test_deleted_messages_are_not_exported() -> None:
    gone = [replace(message, deleted_at=1.0) for message in MESSAGES[1:]]
    assert len(reread(CHAT, [MESSAGES[0], *gone])[1]) == 1


def change(path: str, value: object) -> str:
    """The JSON of the chat with one value changed, or without it for `...`."""
    document = json.loads(to_json(CHAT, MESSAGES, made_by=""))
    place, keys = document, [int(key) if key.isdigit() else key for key in path.split(".")]
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("format", "other", "not a chat of Smoldesk"),
        ("format_version", 2, "newer"),
        ("format_version", "1", "format_version"),
        ("chat", None, "chat is not an object"),
        ("chat.title", 5, "chat.title"),
        ("chat.created_at", "now", "chat.created_at"),
        ("chat.created_at", 10**400, "chat.created_at"),
        ("chat.pinned", 1, "chat.pinned"),
        ("chat.options.temperature", "hot", "chat.options"),
        ("messages", {}, "messages"),
        ("messages.1", 7, "messages[1]"),
        ("messages.1.role", "robot", "messages[1].role"),
        ("messages.1.id", True, "messages[1].id"),
        ("messages.1.id", 1, "the same id"),
        ("messages.1.parent", 99, "not there"),
        ("messages.0.parent", 3, "circle"),
        ("messages.1.content", ..., "messages[1].content"),
        ("messages.1.reply", None, "messages[1].reply"),
        ("messages.1.reply.status", "x", "messages[1].reply.status"),
        ("messages.1.reply.reason", "x", "messages[1].reply.reason"),
        ("messages.1.reply.token_ids", [1, -1], "messages[1].reply.token_ids"),
        ("messages.1.reply.options", [[0]], "messages[1].reply.options[0]"),
        ("messages.1.reply.statistics.new_tokens", 0.5, "statistics.new_tokens"),
    ],
)
def test_a_fault_is_named_with_its_place(path, value, words) -> None:
    with pytest.raises(TransferError) as fault:
        from_json(change(path, value))
    assert words in str(fault.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "5", "null", '{"a": 1' + "0" * 5000 + "}"]
)
def test_what_is_no_chat_is_one_sentence(text) -> None:
    with pytest.raises(TransferError):
        from_json(text)


def test_unknown_fields_are_passed_over() -> None:
    assert from_json(change("chat.colour", "blue")) == (CHAT, MESSAGES)


def test_markdown_keeps_messages_apart() -> None:
    path = [
        replace(MESSAGES[0], content="# not a heading of ours\n```python\nx = 1"),
        MESSAGES[1],
    ]
    text = to_markdown(replace(CHAT, title="Tea"), path)
    assert text.startswith("# Tea\n\n1970-01-01")
    assert "```python\nx = 1\n```\n\n---\n\n**SmolLM2**\n\nBecause." in text
    assert "seed" in text
    closed = to_markdown(CHAT, [replace(MESSAGES[0], content="~~~\n```\n~~~")])
    assert closed.count("~~~") == 2


@pytest.mark.parametrize("title", ["", "con", "a/b\\c:*?", "x" * 500, "春天", "..", "\ud800"])
def test_file_names_are_possible_everywhere(title, tmp_path) -> None:
    name = file_name(title, 1e9)
    assert name == name.strip(" .")
    assert not set(name) & set('/\\:*?"<>|\0')
    (tmp_path / f"{name}.json").write_text("")
    assert file_name(title, 1e300)


def test_an_archive_of_all_comes_back(tmp_path) -> None:
    path = tmp_path / "all.zip"
    chats = [(replace(CHAT, title="same"), MESSAGES) for _ in range(3)]
    assert write_archive(path, chats, made_by="x") == 3
    report = Report()
    assert list(read_file(path, report, usual=USUAL)) == chats
    assert (report.chats, report.messages, report.problems) == (3, 15, [])
    assert [file.name for file in tmp_path.iterdir()] == ["all.zip"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path) -> None:
    path = tmp_path / "all.zip"
    path.write_text("before")

    def chats():
        yield CHAT, MESSAGES
        raise OSError(28, "No space left on device")

    with pytest.raises(TransferError, match="No space left"):
        write_archive(path, chats(), made_by="x")
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["all.zip"]
    with pytest.raises(TransferError, match="could not be written"):
        write_text(tmp_path / "no folder" / "x.md", "")


def test_one_damaged_entry_does_not_stop_the_others(tmp_path) -> None:
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", to_json(CHAT, MESSAGES, made_by=""))
        archive.writestr("../../b.json", "{")
        archive.writestr("c.json", to_json(CHAT, MESSAGES[:1], made_by=""))
        archive.writestr("d.txt", "x")
    report = Report()
    assert len(list(read_file(path, report, usual=USUAL))) == 2
    (problem,) = report.problems
    assert "b.json" in problem
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TransferError):
        list(read_file(path, Report(), usual=USUAL))
    path.write_bytes(whole.replace(b"smoldesk-chat", b"smoldesk-cha!"))
    list(
        read_file(path, Report(), usual=USUAL)
    )  # checksums are wrong: told, not raised as something else


def node(key, parent, role, parts, **message):
    return key, {
        "id": key,
        "parent": parent,
        "children": [],
        "message": {"author": {"role": role}, "content": {"parts": parts}, **message},
    }


def chatgpt(*nodes, current, **values):
    return {
        "title": "Trip",
        "create_time": 1.7e9,
        "mapping": dict(nodes),
        "current_node": current,
    } | values


BRANCHES = chatgpt(
    ("root", {"id": "root", "parent": None, "message": None}),
    node("s", "root", "system", [""]),
    node("u", "s", "user", ["Where to?", {"content_type": "image_asset_pointer"}]),
    node("a1", "u", "assistant", ["Rome"], metadata={"model_slug": "gpt-4o"}),
    node("a2", "u", "assistant", ["Oslo"], create_time=1.7e9),
    node("t", "a1", "assistant", ["search()"], recipient="browser"),
    node("r", "t", "tool", ["results"]),
    node("u2", "r", "user", ["And then? \ud800"]),
    current="u2",
)


def read(tmp_path, document, name="conversations.json"):
    path = tmp_path / name
    path.write_text(json.dumps(document))
    report = Report()
    return list(read_file(path, report, usual=USUAL)), report


def test_chatgpt_comes_in_with_its_branches(tmp_path) -> None:
    ((chat, messages),), report = read(tmp_path, [BRANCHES])
    texts = {message.id: message.content for message in messages}
    assert texts == {1: "Where to?\n\n[image]", 2: "Rome", 3: "And then? \ud800", 4: "Oslo"}
    assert [message.parent_id for message in messages] == [None, 1, 2, 1]
    assert messages[0].selected_id == 2
    assert (chat.title, chat.selected_id, chat.created_at) == ("Trip", 1, 1.7e9)
    assert messages[1].reply.model == "gpt-4o"
    assert messages[3].reply.model == "ChatGPT"
    assert report.left_out["images and other attachments"] == 1
    assert report.left_out["messages of tools"] == 1
    assert "1 chat with 4 messages came in." in report.sentences()
    assert (
        "Left out: images and other attachments (1), messages of tools (1)." in report.sentences()
    )
    assert chat.options == USUAL


def test_chatgpts_zip_and_odd_conversations(tmp_path) -> None:
    path = tmp_path / "export.zip"
    circle = chatgpt(node("a", "b", "user", ["x"]), node("b", "a", "user", ["y"]), current="a")
    odd = [
        BRANCHES,
        {"title": "No tree"},
        {"title": "Broken", "mapping": {"x": 5}},
        7,
        chatgpt(current=None, title=None, create_time="yesterday"),
        circle,
        chatgpt(node("u", "nobody", "user", ["alone"]), current="gone", create_time=1.7e12),
    ]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps(odd))
        archive.writestr("user.json", json.dumps({"mail": "x"}))
    report = Report()
    chats = list(read_file(path, report, usual=USUAL))
    assert [chat.title for chat, _ in chats] == ["Trip", "Trip"]
    assert chats[1][0].created_at == 1.7e9
    assert len(report.problems) == 3
    assert "Conversation 2 (No tree)" in report.problems[0]
    assert report.left_out["chats without a message"] == 2


_HISTORY = {
    "currentId": "3",
    "messages": {
        "1": {"id": "1", "parentId": None, "role": "user", "content": "Hello",
              "timestamp": 1.7e9, "files": [{"name": "a.pdf"}]},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "One", "model": "m1"},
        "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "Two",
              "modelName": "M"},
        "4": {"id": "4", "parentId": "3", "role": "user", "content": " "},
    },
}  # fmt: skip
_TALK = {"title": "T", "history": _HISTORY, "messages": [], "system": "Be kind."}
OPEN_WEBUI = [{"id": "x", "title": "Mine", "chat": _TALK, "created_at": 1.7e9, "updated_at": 1.8e9,
         "pinned": True, "archived": False}]  # fmt: skip


def test_open_webui_comes_in_with_its_branches(tmp_path) -> None:
    ((read_chat, messages),), report = read(tmp_path, OPEN_WEBUI, "chats.json")
    assert (read_chat.title, read_chat.pinned, read_chat.updated_at) == ("Mine", True, 1.8e9)
    assert read_chat.system_prompt == "Be kind."
    assert [m.content for m in messages] == ["Hello\n\n[file: a.pdf]", "One", "Two"]
    assert messages[0].selected_id == 3
    assert messages[2].reply.model == "M"
    assert report.left_out["empty messages"] == 1
    flat = {
        "title": "Flat",
        "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    }
    ((_, messages),), _ = read(tmp_path, flat, "flat.json")
    assert [m.parent_id for m in messages] == [None, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1"),
        ('[\n{"a": }', "line 2, column 7"),
        ("[" * 100_000, "nested"),
        ("[]", "none of the kinds"),
        ('{"a": 1}', "none of the kinds"),
        ("7", "none of the kinds"),
    ],
)
def test_another_file_is_refused_with_the_place_of_the_fault(tmp_path, text, words) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(TransferError) as fault:
        list(read_file(path, Report(), usual=USUAL))
    assert words in str(fault.value)
    with pytest.raises(TransferError):
        list(read_file(tmp_path, Report(), usual=USUAL))
    with pytest.raises(TransferError):
        list(read_file(tmp_path / "nothing", Report(), usual=USUAL))


keys = st.sampled_from(["a", "b", "c", "d", "e", None, "nobody"])
roles = st.sampled_from(["user", "assistant", "tool", "system", "odd", None])


@given(
    st.dictionaries(keys.filter(bool), st.tuples(keys, roles, st.sampled_from(["", "x", "y"]))),
    keys,
)
def test_every_text_arrives_once_under_its_nearest_ancestor(tree, current) -> None:
    document = chatgpt(
        *(node(key, parent, role, [text + key]) for key, (parent, role, text) in tree.items()),
        current=current,
    )
    from app.transfer.chatgpt import read_chatgpt

    report = Report()
    _, messages = read_chatgpt(document, report)
    arrived = sorted(message.content for message in messages)
    lost = report.left_out["messages that follow each other in a circle"]
    expected = sorted(t + k for k, (_, role, t) in tree.items() if role in ("user", "assistant"))
    assert len(arrived) + lost == len(expected)
    assert set(arrived) <= set(expected)
    ids = [message.id for message in messages]
    assert all(m.parent_id is None or m.parent_id < m.id for m in messages)
    assert len(set(ids)) == len(ids)


def places(document):
    """Every place in it where a value is: what holds it, and its key or number."""
    held = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(held):
        yield document, key
        if isinstance(value, dict | list):
            yield from places(value)


JUNK = (None, True, 0, -1, 2**70, 1e308, math.inf, math.nan, "", "\0", "\ud800", "2024-01-01",
        "x" * 500, [], [None], [[]], {}, {"a": 1})  # fmt: skip


@pytest.mark.parametrize(
    "document", [json.loads(to_json(CHAT, MESSAGES, made_by="")), [BRANCHES], OPEN_WEBUI]
)
def test_whatever_stands_anywhere_comes_in_whole_or_is_told(tmp_path, document):
    path = tmp_path / "damaged.json"
    for held, key in list(places(document)):
        sound = held[key]
        for held[key] in JUNK:
            path.write_text(json.dumps(document))
            report = Report()
            with contextlib.suppress(TransferError):  # and no other
                for chat, messages in read_file(path, report, usual=USUAL):
                    assert from_json(to_json(chat, messages, made_by="")) == (chat, messages)
            assert report.sentences()
        held[key] = sound

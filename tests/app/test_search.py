"""Search in all chats: what people type is found as they mean it, and the index stays in step."""

import re
import sqlite3
import time
import unicodedata
from itertools import pairwise

import pytest
from fake_engine import FakeEngine
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.store.chats import ChatStore
from app.store.records import ChatRecord, MessageRecord, ReplyRecord
from app.store.search import (
    _UNSPACED,
    Hit,
    _is_letter,
    excerpt,
    find,
    patterns_of,
    query_of,
    search_words,
)
from app.ui.finding import fold, matches, places

TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "Ein Café in Zürich, straße and STRASSE",
    "春天来了，万物复苏。",
    "こんにちは世界、元気ですか",
    "हिन्दी में लिखा हुआ",
    "שָׁלוֹם עולם",
    "ภาษาไทยง่ายนิดเดียว",
    "don't stop: foo_bar(baz) -- AND or NOT near NEAR(x)",
    "full ｗｉｄｔｈ letters",
    "\ud800 half \0 nothing 👩‍👩‍👧 family",
    "你好，世界。我使用Python写代码，去年2020",
    "\u1112\u1161\u11ab\u1100\u1173\u11af か\u3099くせい ｶﾞﾗｽ ন\u09c7\u09be",
    "בית־ספר ✔\ufe0fdone",
]


@pytest.fixture
def store(tmp_path):
    store = ChatStore(tmp_path / "chats.db", on_problem=lambda problem: pytest.fail(str(problem)))
    yield store
    store.close(5)


@pytest.fixture
def filled(store):
    store.save_chat(ChatRecord(store.next_id(), "one"))
    for text in TEXTS:
        store.save_message(MessageRecord(store.next_id(), 1, None, "user", text, time.time()))
    assert store.flush(5)
    return store


def found(store, text: str) -> list[int]:
    """The numbers of the texts that are found."""
    return sorted(hit.message_id - 2 for hit in store.search(text, limit=100))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("quick", [0]),
        ("QUI", [0]),
        ("qui ", []),
        ("fox dog", [0]),
        ("dog fox", [0]),
        ('"fox dog"', []),
        ('"brown fox"', [0]),
        ("ox", []),
        ("cafe", [1]),
        ("CAFÉ", [1]),
        ("zurich", [1]),
        ("strasse", [1]),
        ("Straße", [1]),
        ("春天", [2]),
        ("天来", [2]),
        ("苏", [2]),
        ("春", [2]),
        ("物", [2]),
        ("春天来了", [2]),
        ("春来", []),
        ("世界", [3, 10]),
        ("元気", [3]),
        ("हिन्दी", [4]),
        ("लिख", [4]),
        ("שלום", [5]),
        ("ไทย", [6]),
        ("ง่าย", [6]),
        ("don't", [7]),
        ("foo_bar", [7]),
        ("NEAR(x", [7]),
        ("AND", [1, 7]),
        ("NOT near", [7]),
        ("width", [8]),
        ("half", [9]),
        ("", []),
        ("   ", []),
        ('"', []),
        ('""', []),
        ("* ^ : - ( ) { } '", []),
        ("the", [0]),
        ("你好，世界", [10]),
        ("使用Python", [10]),
        ("Python写", [10]),
        ("代码 去年2020", [10]),
        ("用python写代 ", [10]),
        ("春 来了", [2]),
        ('"了，万物" 春', [2]),
        ('"世" 你', [10]),
        ("한글", [11]),
        ("がくせい", [11]),
        ("ガラス", [11]),
        ("নো", [11]),
        ("ספר", [12]),
        ("done", [12]),
        ("✔\ufe0f", []),
    ],
)
def test_what_is_found(filled, text, numbers):
    assert found(filled, text) == numbers


@given(st.text(max_size=30))
def test_nothing_that_is_typed_is_an_error(text):
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE s USING fts5(w, tokenize="
        "\"unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'\")"
    )
    query = query_of(text)
    if query:
        connection.execute("SELECT * FROM s WHERE s MATCH ?", (query,)).fetchall()
    connection.close()


@given(st.text(max_size=60), st.integers(0, 60), st.integers(1, 10))
def test_every_part_of_a_text_is_found_in_it(text, start, length):
    part = text[start : start + length]
    if fold(part):
        hits = places(text, part)
        assert hits
        for begin, end in hits:
            assert fold(part) in fold(text[begin:end])
        assert all(a[1] <= b[0] for a, b in pairwise(hits))


def test_marks_are_where_the_words_are():
    assert places("Café CAFÉ cafe\u0301!", "cafe") == [(0, 4), (5, 9), (10, 15)]
    assert places("STRASSE straße", "straße") == [(0, 7), (8, 14)]
    assert places("aaa", "aa") == [(0, 2)]
    assert places("abc", "") == []
    assert places("学がく", "か\u3099く") == [(1, 3)]
    assert places("한글", "\u1112\u1161\u11ab") == [(0, 1)]


@pytest.mark.parametrize(
    ("typed", "stands", "marked"),
    [
        ("needle", "needle\n\nand  hay " * 30, {"needle"}),
        ("don't", "Please don’t stop", {"don’t"}),
        ("foo_bar(", "call foo_bar(1)", {"foo_bar"}),
        ('"brown fox"', "a brown\n  fox", {"brown fox"}),
        ("word cat ", "then the cat", {"word", "cat"}),
        ("cat ", "catalogue of a cat", {"cat"}),
        ("zur", "in Zürich", {"Zür"}),
        ("你好，世界", "说你好，世界。", {"你好，世界"}),
        ("用python写 python", "我使用Python写", {"用Python写"}),
    ],
)
def test_an_excerpt_is_one_line_around_what_was_typed(typed, stands, marked):
    before = "concatenate " + "word\n\n " * 100
    line, marks = excerpt(before + stands + " more" * 50, patterns_of(typed))
    assert len(line) <= 122
    assert "\n" not in line
    assert "  " not in line
    if not typed.startswith("word"):  # which stands at the beginning
        assert line.startswith("…word")
        assert {line[a:b] for a, b in marks} == marked
    assert line.endswith("…")
    assert all(a[1] <= b[0] for a, b in pairwise(marks))


def test_an_excerpt_of_odd_texts():
    assert excerpt("short", patterns_of("nothing")) == ("short", ())
    assert excerpt("", patterns_of("nothing")) == ("", ())
    assert excerpt(" \0\n ", []) == ("", ())
    line, marks = excerpt("a" + " " * 9000 + "b", patterns_of("a b"))
    assert (line, marks) == ("a b", ((0, 1), (2, 3)))
    line, marks = excerpt("字" * 9000, patterns_of("字"))
    assert (len(line), line[-1]) == (121, "…")


def test_all_of_a_script_without_spaces_are_letters():
    for first, last in re.findall("(.)-(.)", _UNSPACED):
        for code in range(ord(first), ord(last) + 1):
            assert unicodedata.category(chr(code)) == "Cn" or _is_letter(chr(code)), hex(code)


# Letters of all kinds, marks, and what may stand between words.
words = st.text(
    alphabet="aBé1ßｶﾞか\u3099字漢한\u1112\u1161क\u093fไ่א\u05d0\u05be \"'_-.，・。", max_size=12
)


@given(words, st.integers(0, 11), st.integers(1, 11))
def test_whole_words_of_a_text_find_it_and_are_marked(text, start, length):
    """Cut where a new word may begin: at another kind of script, or within one without spaces."""
    typed = text[start : start + length].replace('"', " ")
    before = text[:start]
    if before and _is_letter(fold(before)[-1:] or "a") and fold(typed)[:1] not in set("字漢"):
        return
    query = query_of(f'"{typed}')
    if not query:
        return
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE s USING fts5(w, tokenize="
        "\"unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'\")"
    )
    connection.execute("INSERT INTO s VALUES (?)", (search_words(text.encode()),))
    assert connection.execute("SELECT 1 FROM s WHERE s MATCH ?", (query,)).fetchall()
    connection.close()
    (pattern,) = patterns_of(f'"{typed}')
    assert list(matches(text, pattern))


def test_deleted_messages_and_chats_are_not_found(filled):
    filled.save_message(MessageRecord(2, 1, None, "user", TEXTS[0], deleted_at=5.0))
    assert filled.flush(5)
    assert found(filled, "fox") == []
    filled.save_message(MessageRecord(2, 1, None, "user", TEXTS[0]))
    filled.save_chat(ChatRecord(1, "one", archived=True))
    assert filled.flush(5)
    assert found(filled, "fox") == [0]
    filled.save_chat(ChatRecord(1, "one", deleted_at=5.0))
    assert filled.flush(5)
    assert found(filled, "fox") == []


def test_the_newest_come_first_and_no_more_than_asked_for(store):
    store.save_chat(ChatRecord(store.next_id()))
    for _ in range(30):
        store.save_message(MessageRecord(store.next_id(), 1, None, "user", "the same"))
    assert store.flush(5)
    hits = store.search("same", limit=10)
    assert [hit.message_id for hit in hits] == list(range(31, 21, -1))
    assert hits[0] == Hit(1, 31, "user", 0.0, "the same", ((4, 8),))


texts = st.text(alphabet="ab é漢字", max_size=6)
changes = st.lists(
    st.tuples(st.sampled_from(["save", "save", "delete", "forget"]), st.integers(1, 6), texts),
    max_size=25,
)


@given(changes)
def test_the_index_stays_in_step_whatever_is_done(tmp_path_factory, changes):
    folder = tmp_path_factory.mktemp("index")
    store = ChatStore(folder / "chats.db", on_problem=lambda problem: pytest.fail(str(problem)))
    chats = {number: store.next_id() for number in range(1, 7)}
    messages = {number: store.next_id() for number in range(1, 7)}
    for number in chats:
        store.save_chat(ChatRecord(chats[number]))
    expected: dict[int, str] = {}
    forgotten = set()
    for what, number, text in changes:
        if what == "forget":
            store.forget_chat(chats[number])
            forgotten.add(number)
            expected.pop(number, None)
        elif number not in forgotten:
            deleted = 1.0 if what == "delete" else None
            record = MessageRecord(
                *(messages[number], chats[number], None, "assistant", text, 0.0, deleted),
                reply=ReplyRecord("finished"),
            )
            store.save_message(record)
            expected[number] = "" if deleted else text
        store.flush(5)
    assert store.close(5)
    check = sqlite3.connect(folder / "chats.db")
    check.create_function("search_words", 1, search_words, deterministic=True)
    check.execute("INSERT INTO search (search, rank) VALUES ('integrity-check', 1)")
    for wanted in ("a", "b", "é", "漢字"):
        ids = {hit.message_id for hit in find(check, f'"{wanted}"', limit=100)}
        words = search_words(wanted.encode()).split()[0]
        told = {
            messages[number]
            for number, text in expected.items()
            if words in search_words(text.encode()).split()
        }
        assert ids == told, wanted
    check.close()


def test_what_is_deleted_for_good_is_in_no_file(store, tmp_path):
    for chat, word in ((1, "xylophone"), (2, "zeppelin")):
        store.save_chat(ChatRecord(chat))
        for number in range(3, 300):
            text = f"{word} {number}"
            store.save_message(MessageRecord(1000 * chat + number, chat, None, "user", text))
    assert store.flush(5)
    store.forget_chat(1)
    assert store.flush(5)
    for file in tmp_path.iterdir():
        assert b"xyloph" not in file.read_bytes(), file.name
    assert len(store.search("zeppelin", limit=1000)) == 297


@pytest.fixture
def window(open_window, wait_until):
    """A window with three chats, of which the second is archived."""
    smoldesk = open_window(FakeEngine(reply_text="A reply about the moon."))
    smoldesk.chat_ids = []
    for question in ("Tell me of tea", "And of coffee", "Third"):
        smoldesk.chats.new_chat()
        smoldesk.chat.submit(question)
        wait_until(lambda: smoldesk.scheduler.idle)
        smoldesk.chat_ids.append(smoldesk.chat.conversation.chat.id)
    smoldesk.chats.archive(smoldesk.chat_ids[1], True)
    assert smoldesk.store.flush(5)
    return smoldesk


def hits(smoldesk, wait_until, text: str):
    """What the list shows for that."""
    bar = smoldesk.window.sidebar
    told = []
    smoldesk.search.hits_changed.connect(lambda text, hits: told.append((text, hits)))
    bar.field.setText(text)
    wait_until(lambda: told and told[-1][0] == text)
    assert bar._either.currentWidget() is bar.results
    assert bar.results.hits.rowCount() == len(told[-1][1])
    return told[-1][1]


def test_typing_shows_titles_and_messages_and_esc_the_chats_again(window, wait_until):
    bar = window.window.sidebar
    first, second, third = window.chat_ids
    found = hits(window, wait_until, "tea")
    assert [(hit.chat_id, hit.message_id is None) for hit in found] == [
        (first, True),
        (first, False),
    ]
    assert {hit.chat_id for hit in hits(window, wait_until, "moon")} == {first, second, third}
    assert hits(window, wait_until, "zebra") == []
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert bar.field.text() == ""
    assert bar._either.currentWidget() is bar.list


def test_a_hit_is_opened_by_keys_in_an_archived_chat_and_on_another_branch(window, wait_until):
    first, second, _ = window.chat_ids
    window.chats.open_chat(first)
    question, reply = window.window.transcript.messages
    window.chat.edit(question.id)
    window.chat.submit("Tell me of cocoa")
    wait_until(lambda: window.scheduler.idle)
    assert window.store.flush(5)
    window.chats.new_chat()
    window.keys.act("search")
    window.window._search()
    bar = window.window.sidebar
    hits(window, wait_until, "tell tea")
    QTest.keyClick(bar.field, Qt.Key.Key_Down)
    assert bar.results.currentIndex().row() == 0
    QTest.keyClick(bar.results, Qt.Key.Key_Down)  # the first is the title of the chat
    QTest.keyClick(bar.results, Qt.Key.Key_Return)
    assert window.chat.conversation.chat.id == first
    assert [m.id for m in window.window.transcript.messages] == [question.id, reply.id]
    hits(window, wait_until, "coffee")
    QTest.keyClick(bar.field, Qt.Key.Key_Return)
    assert window.chat.conversation.chat.id == second
    QTest.keyClick(bar.results, Qt.Key.Key_Escape)
    assert not bar.results.hasFocus()


def test_a_hit_far_up_comes_into_sight(window, wait_until):
    window.chats.open_chat(window.chat_ids[0])
    for number in range(40):
        window.chat.submit(f"number {number} " + "word " * 60)
        wait_until(lambda: window.scheduler.idle)
    assert window.store.flush(5)
    (hit,) = [hit for hit in hits(window, wait_until, '"number 7"') if hit.message_id]
    window.window.sidebar.hit_chosen.emit(hit)
    transcript = window.window.transcript
    view = transcript.view(hit.message_id)
    assert transcript.viewport().rect().contains(view.pos() + view.rect().center())
    assert "number 7 " in view.message.text

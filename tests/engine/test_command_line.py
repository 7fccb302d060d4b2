"""`python -m engine` as a user runs it: real processes, real exit codes, the real model."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest


@pytest.fixture
def cli(default_model_path, tmp_path):
    def run(*arguments, stdin="", model=True, **environ):
        environment = os.environ | {"SMOLDESK_HOME": str(tmp_path / "home")} | environ
        model_arguments = ["--model", str(default_model_path)] if model else []
        command, *rest = arguments
        return subprocess.run(
            [sys.executable, "-m", "engine", command, *model_arguments, *rest],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=environment,
            cwd=tmp_path,
            timeout=120,
        )

    return run


def assert_one_line_error(result, *words):
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert len(result.stderr) < 500
    for word in words:
        assert word in result.stderr


def test_complete_tells_ids_text_and_reason(cli):
    result = cli(
        *("complete", "--prompt", "The capital of France is", "--max-tokens", "5"),
        *("--temperature", "0", "--precision", "fp32", "--json"),
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["prompt_ids"] == [504, 3575, 282, 4649, 314]
    assert answer["ids"] == [7042, 30, 198, 198, 504]
    assert answer["text"] == " Paris.\n\nThe"
    assert answer["finish_reason"] == "length"
    assert answer["statistics"]["new_tokens"] == 5


def test_complete_answers_a_dialog_from_a_file(cli, tmp_path):
    dialog = tmp_path / "dialog.json"
    dialog.write_text(json.dumps([{"role": "user", "content": "What is the capital of Italy?"}]))
    arguments = ("--messages", str(dialog), "--max-tokens", "12", "--temperature", "0")
    arguments += ("--precision", "fp32")
    answer = json.loads(cli("complete", *arguments, "--json").stdout)
    assert answer["prompt_ids"][0] == 1
    assert answer["ids"] == [39393, 4618, 1119, 82, 7129, 28, 7158, 30, 2]
    assert cli("complete", *arguments).stdout == answer["text"] + "\n"


def test_the_same_seed_gives_the_same_text(cli):
    arguments = ("complete", "--prompt", "Once", "--max-tokens", "8", "--seed", "7", "--json")
    first, second = (json.loads(cli(*arguments).stdout) for _ in range(2))
    assert first["seed"] == 7
    assert first["ids"] == second["ids"]


def test_logits_are_those_of_the_reference(cli):
    result = cli(
        *("logits", "--ids", "504 3575 282 4649 314", "--top", "3"),
        *("--precision", "fp32", "--json"),
    )
    answer = json.loads(result.stdout)
    assert answer["top_ids"] == [7042, 260, 4528]
    assert answer["top_logits"] == pytest.approx([17.3713, 14.8886, 13.245], abs=2e-3)
    assert answer["top_texts"] == [" Paris", " the", " London"]


def test_tokenize_takes_an_argument_or_standard_input(cli):
    expected = {"ids": [51, 1939], "texts": ["C", "af"]}
    assert json.loads(cli("tokenize", "Caf", "--json").stdout) == expected
    assert json.loads(cli("tokenize", "--json", stdin="Caf").stdout) == expected


def test_chat_keeps_the_conversation_until_new(cli):
    lines = "What is the capital of Italy?\nAnd of France?\n/new\nHello\n/quit\nnever read\n"
    result = cli("chat", "--max-tokens", "6", "--temperature", "0", "--json", stdin=lines)
    assert result.returncode == 0, result.stderr
    first, second, third = (json.loads(line) for line in result.stdout.splitlines())
    assert second["statistics"]["reused_tokens"] > first["statistics"]["prompt_tokens"]
    assert third["statistics"]["prompt_tokens"] < first["statistics"]["prompt_tokens"]


def test_a_line_too_long_for_the_model_is_refused_and_the_chat_goes_on(cli):
    lines = "word " * 9000 + "\nHello\n"
    result = cli("chat", "--max-tokens", "3", "--json", stdin=lines)
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 1
    assert "8,192" in result.stderr


def test_bench_tells_what_was_asked_for_and_nothing_else(cli):
    result = cli("bench", "--only", "memory,bandwidth", "--rounds", "1", "--json")
    figures = json.loads(result.stdout)
    always = {"model", "device", "precision", "threads"}
    assert figures.keys() == always | {"rss_mb", "bandwidth"}
    assert figures["device"] == "CPU"
    assert 90e6 < figures["bandwidth"]["bytes_per_token"] < 100e6  # of the 4-bit file
    assert figures["bandwidth"]["read_gb_s"] > 0
    assert figures["rss_mb"] > 100


def test_models_lists_what_is_installed(cli, tmp_path, default_model_path):
    assert json.loads(cli("models", "--json", model=False).stdout) == []
    folder = tmp_path / "home" / "data" / "models" / "Mine"
    folder.mkdir(parents=True)
    (folder / "model.gguf").symlink_to(default_model_path)
    (mine,) = json.loads(cli("models", "--json", model=False).stdout)
    assert mine["name"] == "Mine"


SHORT = ("complete", "--prompt", "x", "--max-tokens", "1")
FILES = {
    "page.gguf": b"<!DOCTYPE html><html>not found</html>",
    "empty.gguf": b"",
    "model.bin": b"\x80\x04pickled",
    "broken.json": b'[{"role": "user"',
    "wrong.json": b'[{"role": "user", "content": "x"}, {"role": "robot", "content": "x"}]',
}
BAD_INPUT = {
    "a web page": ((*SHORT, "--model", "page.gguf"), ["web page"]),
    "an empty file": ((*SHORT, "--model", "empty.gguf"), ["empty"]),
    "a pickle": ((*SHORT, "--model", "model.bin"), ["can run code"]),
    "a path to nothing": ((*SHORT, "--model", "nowhere/model.gguf"), ["nowhere"]),
    "an unknown model": ((*SHORT, "--model", "NoSuchModel"), ["NoSuchModel", "--fetch-default"]),
    "no model at all": (SHORT, ["--fetch-default"]),
    "an unknown precision": ((*SHORT, "--precision", "int7"), ["int7", "int8"]),
    "an unknown part of bench": (("bench", "--only", "decode,speed"), ["speed", "prefill"]),
    "quality without a text": (("bench", "--only", "quality"), ["--quality FILE"]),
    "a text that is not there": (("bench", "--quality", "none.txt"), ["none.txt"]),
    "an unknown device": ((*SHORT, "--device", "toaster"), ["toaster"]),
    "a temperature out of range": ((*SHORT, "--temperature", "9"), ["temperature"]),
    "a negative seed": ((*SHORT, "--seed", "-1"), ["seed"]),
    "a cut dialog": (("complete", "--messages", "broken.json"), ["not valid JSON", "dialog"]),
    "an unknown role": (("complete", "--messages", "wrong.json"), ["Message 2", "roles"]),
    "a missing dialog": (("complete", "--messages", "none.json"), ["none.json", "No such file"]),
    "a folder for a dialog": (("complete", "--messages", "."), ["cannot be read"]),
    "no number of logits": (("logits", "--ids", "5", "--top", "0"), ["from 1 up"]),
    "a page of ids": (("logits", "--ids", "x" * 9000), ["token ids"]),
    "words for ids": (("logits", "--ids", "five"), ["token ids"]),
    "a missing argument": (("complete",), ["--help"]),
    "an unknown command": (("dance",), ["--help"]),
}


@pytest.mark.parametrize(("arguments", "words"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_one_line_and_exit_code_2(cli, tmp_path, arguments, words):
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    assert_one_line_error(cli(*arguments, model=False), *words)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_dialog_may_be_in_any_encoding_that_json_is_written_in(cli, tmp_path, encoding):
    dialog = tmp_path / "dialog.json"
    dialog.write_text('[{"role": "user", "content": "Ça va ?"}]', encoding=encoding)
    arguments = ("--messages", str(dialog), "--max-tokens", "1", "--json")
    answer = json.loads(cli("complete", *arguments).stdout)
    assert len(answer["prompt_ids"]) == 35


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to offer")
def test_a_full_disk_under_the_output_is_one_line(home):
    done = subprocess.run(
        f"{sys.executable} -m engine models > /dev/full", shell=True, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr == "smoldesk-cli: The system refused: No space left on device.\n"


@pytest.mark.skipif(os.name == "nt", reason="the shell's own way to close streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(home, default_model_path, closed):
    for command in ("models", f"tokenize hello --model '{default_model_path}'"):
        done = subprocess.run(f"{sys.executable} -m engine {command} {closed}", shell=True)
        assert done.returncode == 0


def test_an_output_nobody_reads_ends_quietly(home):
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_letters_that_the_terminal_cannot_show_do_no_harm(cli):
    done = cli("tokenize", "--json", stdin="caf\u00e9", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    done = cli("tokenize", "café ☕", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("token_id", ["-1", "49152", "99999999999999999999"])
def test_ids_outside_the_vocabulary_are_refused(cli, token_id):
    assert_one_line_error(cli("logits", f"--ids=504 {token_id}"), "There is no token")


def test_a_prompt_longer_than_the_context_is_refused(cli, tmp_path):
    dialog = tmp_path / "long.json"
    dialog.write_text(json.dumps([{"role": "user", "content": "word " * 9000}]))
    assert_one_line_error(cli("complete", "--messages", str(dialog)), "8,192")


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal can be sent there")
def test_ctrl_c_ends_a_start_that_compiles(tmp_path, default_model_path):
    environ = os.environ | {"SMOLDESK_COMPILED": str(tmp_path), "SMOLDESK_HOME": str(tmp_path)}
    words = ["complete", "--model", str(default_model_path), "--prompt", "a", "--max-tokens", "1"]
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "engine", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    )
    assert any("engine.step.kernels" in line for line in process.stderr)  # it begins to compile
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert not out
    assert not list(tmp_path.rglob("*.o"))  # it did not go on to the end

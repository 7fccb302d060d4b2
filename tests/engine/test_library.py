"""What is installed, and which model is meant by what someone typed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.errors import EngineError, ModelFileError, ModelNotFoundError
from engine.files.catalog import DEFAULT_MODEL
from engine.files.digest import weights_digest
from engine.files.library import find_model, installed_models

GGUF_HEAD = b"GGUF" + bytes(60)
SAFETENSORS_HEAD = b"\x02" + bytes(7) + b"{}"


def add_gguf(models: Path, name: str, file_name: str = "model.gguf") -> Path:
    (models / name).mkdir(parents=True, exist_ok=True)
    path = models / name / file_name
    path.write_bytes(GGUF_HEAD)
    return path


def add_safetensors(models: Path, name: str) -> Path:
    (models / name).mkdir(parents=True, exist_ok=True)
    (models / name / "config.json").write_text("{}")
    (models / name / "model.safetensors").write_bytes(SAFETENSORS_HEAD)
    return models / name


def test_no_folder_means_no_models(tmp_path):
    assert installed_models(tmp_path / "nowhere") == []


def test_models_of_both_kinds_are_listed_with_what_to_load(tmp_path):
    gguf = add_gguf(tmp_path, "b ü 🙂")
    folder = add_safetensors(tmp_path, "a")
    sharded = add_safetensors(tmp_path, "c")
    (sharded / "model.safetensors").rename(sharded / "x-1.safetensors")
    (sharded / "x-2.safetensors").write_bytes(SAFETENSORS_HEAD)
    places = {"weight_map": {"p": "x-1.safetensors", "q": "x-2.safetensors"}}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(places))
    listed = [(m.name, m.path, m.bytes, m.kind) for m in installed_models(tmp_path)]
    assert listed == [
        ("a", folder, 10, "safetensors"),
        ("b ü 🙂", gguf, 64, "gguf"),
        ("c", sharded, 20, "safetensors"),
    ]


def test_several_models_in_one_folder_have_names_of_their_own(tmp_path):
    add_gguf(tmp_path, "m", "q4.gguf")
    add_gguf(tmp_path, "m", "q8.gguf")
    add_safetensors(tmp_path, "m")
    names = [model.name for model in installed_models(tmp_path)]
    assert names == ["m/q4.gguf", "m/q8.gguf", "m/safetensors"]
    assert [find_model(name, tmp_path).name for name in names] == names
    with pytest.raises(ModelNotFoundError, match=r"several models: q4\.gguf"):
        find_model(tmp_path / "m", tmp_path)


def test_half_done_and_foreign_things_are_skipped(tmp_path):
    add_gguf(tmp_path, "good")
    add_gguf(tmp_path, ".fetch-abc")
    add_gguf(tmp_path, "part").rename(tmp_path / "part" / "model.gguf.part")
    (tmp_path / "loose.gguf").write_bytes(GGUF_HEAD)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    add_gguf(tmp_path, "page").write_bytes(b"<!DOCTYPE html>")
    add_gguf(tmp_path, "zero").write_bytes(b"")
    add_gguf(tmp_path, "folder").unlink()
    (tmp_path / "folder" / "model.gguf").mkdir()
    (add_safetensors(tmp_path, "no config") / "config.json").unlink()
    pointer = add_safetensors(tmp_path, "pointer") / "model.safetensors"
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    shards = add_safetensors(tmp_path, "missing shard")
    (shards / "model.safetensors").unlink()
    index = {"weight_map": {"a": "gone.safetensors"}}
    (shards / "model.safetensors.index.json").write_text(json.dumps(index))
    broken = add_safetensors(tmp_path, "broken index")
    (broken / "model.safetensors").unlink()
    (broken / "model.safetensors.index.json").write_text("[[[")
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle" / "pytorch_model.bin").write_bytes(b"PK\3\4")
    if sys.platform != "win32":
        os.symlink("nowhere", tmp_path / "dangling")
        os.symlink("loop", tmp_path / "loop")
        os.mkfifo(add_gguf(tmp_path, "fifo", "x.txt").with_name("pipe.gguf"))
    assert [model.name for model in installed_models(tmp_path)] == ["good"]


def test_a_folder_that_cannot_be_read_is_said_but_a_subfolder_is_skipped(tmp_path, monkeypatch):
    add_gguf(tmp_path, "closed")
    add_gguf(tmp_path, "open")
    real = Path.iterdir
    closed = {tmp_path / "closed"}

    def iterdir(self):
        if self in closed:
            raise PermissionError(13, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert [model.name for model in installed_models(tmp_path)] == ["open"]
    closed.add(tmp_path)
    for look in (lambda: installed_models(tmp_path), lambda: find_model(None, tmp_path)):
        with pytest.raises(EngineError, match=r"cannot be read \(Permission denied\)"):
            look()


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path):
    (tmp_path / "models").write_text("")
    with pytest.raises(EngineError, match="cannot be read"):
        installed_models(tmp_path / "models")


@pytest.mark.parametrize("kind", ["folder above", "model's folder", "model file"])
def test_what_may_not_be_read_is_named_when_there_is_no_other_model(tmp_path, monkeypatch, kind):
    """By stand-ins for the system's refusal: the superuser is never refused."""
    models = tmp_path / "models"
    file = add_gguf(models, "closed")
    closed = {"folder above": models, "model's folder": file.parent, "model file": file}[kind]

    def refusing(method):
        def call(self, *arguments, **options):
            if self == closed:
                raise PermissionError(13, "Permission denied")
            return method(self, *arguments, **options)

        return call

    method = {"folder above": "lstat", "model's folder": "iterdir", "model file": "open"}[kind]
    monkeypatch.setattr(Path, method, refusing(getattr(Path, method)))
    with pytest.raises(EngineError, match=r"cannot be read \(Permission denied\)") as caught:
        find_model(None, models)
    assert str(closed) in caught.value.what
    if kind != "folder above":  # one that can be read is used all the same
        add_gguf(models, "open")
        assert find_model(None, models).name == "open"


def test_a_damaged_model_is_named_when_there_is_no_other(tmp_path):
    add_gguf(tmp_path, "cut").write_bytes(b"")
    with pytest.raises(ModelFileError, match="is empty"):
        find_model(None, tmp_path)
    add_gguf(tmp_path, "whole")
    assert find_model(None, tmp_path).name == "whole"


def test_nothing_asked_for_means_the_default_model_or_else_the_first(tmp_path):
    with pytest.raises(ModelNotFoundError, match="models --fetch-default"):
        find_model(None, tmp_path)
    add_gguf(tmp_path, "A model")
    assert find_model(None, tmp_path).name == "A model"
    add_gguf(tmp_path, DEFAULT_MODEL.name)
    assert find_model(None, tmp_path).name == DEFAULT_MODEL.name


def test_a_model_is_found_by_name_by_file_and_by_folder(tmp_path, monkeypatch):
    gguf = add_gguf(tmp_path / "models", "first")
    elsewhere = add_gguf(tmp_path / "other", "second", "Tiny.Q4.gguf")
    folder = add_safetensors(tmp_path / "other", "third")
    models = tmp_path / "models"
    assert find_model("first", models).path == gguf
    assert find_model(str(elsewhere), models).name == "Tiny.Q4"
    assert find_model(elsewhere, models).path == elsewhere
    assert find_model(elsewhere.parent, models).path == elsewhere
    assert find_model(folder, models).path == folder
    single = find_model(folder / "model.safetensors", models)
    assert (single.name, single.kind) == ("third", "safetensors")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert find_model("~/other/third", models).name == "third"


@pytest.mark.parametrize(
    "spec", ["nothing", "", " ", "~nobody/x", "a\0b", "x" * 10_000, "../..", "/nowhere/x.gguf"]
)
def test_what_is_not_there_says_how_to_get_a_model(tmp_path, monkeypatch, spec):
    add_gguf(tmp_path, "here")
    empty = tmp_path / "some" / "folder"
    empty.mkdir(parents=True)
    monkeypatch.chdir(empty)  # some of these are relative
    with pytest.raises(ModelNotFoundError):
        find_model(spec, tmp_path)


def test_a_path_to_something_else_says_what_it_is(tmp_path):
    page = add_gguf(tmp_path, "page")
    page.write_bytes(b"<html>")
    with pytest.raises(ModelFileError, match="web page"):
        find_model(page, tmp_path)
    (tmp_path / "pickle").mkdir()
    (tmp_path / "pickle" / "pytorch_model.bin").write_bytes(b"PK\3\4")
    with pytest.raises(ModelFileError, match="can run code"):
        find_model(tmp_path / "pickle", tmp_path)
    lonely = add_safetensors(tmp_path, "lonely")
    (lonely / "config.json").unlink()
    with pytest.raises(ModelNotFoundError, match="no complete model"):
        find_model(lonely, tmp_path)


def test_the_library_needs_no_torch():
    code = "import engine.files.default_model, sys; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_a_digest_is_of_the_contents_and_of_all_files(tmp_path):
    one = tmp_path / "a.gguf"
    one.write_bytes(b"weights")
    assert weights_digest(one) == hashlib.sha256(b"weights").hexdigest()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    assert weights_digest(folder) == weights_digest(one)

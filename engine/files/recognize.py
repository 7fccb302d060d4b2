"""What a file is, told by its first bytes and never by its name."""

import os
from pathlib import Path
from typing import Literal

from engine.errors import ModelFileError, ModelNotFoundError

FileKind = Literal["gguf", "safetensors"]

FETCH_AGAIN = "Get the file again from its source."
SAFE_FORMATS = "This format can run code; get the safetensors or GGUF file."

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
"""Usual names of pickled weights. Only the wording of a refusal depends on them."""

_HTML = (b"<!doctype", b"<html", b"<head", b"<?xml", b"<!--")
_LFS_POINTER = b"version https://git-lfs"
_ZIP = b"PK\x03\x04"
_HEAD_BYTES = 512


def file_kind(path: Path) -> FileKind:
    """Return which of the two readable formats the file claims to be.

    Raises ModelNotFoundError if there is no file, and ModelFileError if it cannot be read or is
    something else: an HTML page, a Git-LFS pointer, a pickle, ... named for what it is.
    """
    if not os.path.isfile(path):
        raise ModelNotFoundError(f"There is no file {path}.", "Check the path.")
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(b"GGUF"):
        return "gguf"
    # A safetensors file is a header length of 8 bytes and then a JSON object. It goes before the
    # others: a short header's length looks like the start of a pickle.
    if head[8:9] == b"{":
        return "safetensors"
    raise _foreign(path, head)


def unreadable(path: Path, error: OSError) -> ModelFileError:
    """The error for a file that the system will not let us read."""
    reason = error.strerror or type(error).__name__
    return ModelFileError(
        f"{path} cannot be read ({reason}).", "Check the file's permissions and the disk."
    )


def _foreign(path: Path, head: bytes) -> ModelFileError:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not head:
        return ModelFileError(f"{path.name} is empty.", FETCH_AGAIN)
    if text.startswith(_HTML):
        return ModelFileError(
            f"{path.name} is a web page, not a model.",
            "The download was answered by a login or error page: get the file again.",
        )
    if text.startswith(_LFS_POINTER):
        return ModelFileError(
            f"{path.name} is a Git-LFS pointer: a note of where the model is, not the model.",
            "Run `git lfs pull` in the folder it came from, or download the file itself.",
        )
    pickled = head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    if pickled or head.startswith(_ZIP) or path.suffix.lower() in PICKLE_SUFFIXES:
        return ModelFileError(f"{path.name} is a pickle or zip file.", SAFE_FORMATS)
    return ModelFileError(f"{path.name} is neither a GGUF nor a safetensors file.", FETCH_AGAIN)

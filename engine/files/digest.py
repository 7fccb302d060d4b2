"""Which file a model is, whatever its name."""

import hashlib
from pathlib import Path

from engine.files.hub_folder import weight_files


def weights_digest(path: Path) -> str:
    """The sha256 of the weights' file; of several, that of their digests. Raises OSError.

    Takes about a second for 2 GB.
    """
    digests = []
    for source in weight_files(path) if path.is_dir() else [path]:
        with source.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()

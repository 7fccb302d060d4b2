"""What an installed Smoldesk consists of."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> list[str]:
    """The files in a wheel built from this source tree."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_the_wheel_holds_two_packages_and_nothing_else(names):
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"app", "engine"}


def test_every_module_and_asset_of_the_source_is_in_the_wheel(names):
    for package in ("app", "engine"):
        modules = [*(ROOT / package).rglob("*.py"), *(ROOT / package).rglob("*.sql")]
        for path in modules:
            assert path.relative_to(ROOT).as_posix() in names
    icons = sorted((ROOT / "assets" / "icons").iterdir())
    assert icons
    for icon in icons:
        assert f"app/assets/icons/{icon.name}" in names
    assert "engine/py.typed" in names

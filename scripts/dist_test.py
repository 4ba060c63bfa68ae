"""`python scripts/dist_test.py DIST [ARGUMENT ...]`: run the tests of an sdist with the wheel, away from the checkout.

DIST is a folder with one wheel and one sdist. A virtual environment is made in a temporary folder, the wheel is
installed there with the extra `test`, the sdist is unpacked beside it without its `src`, and pytest is run in it, with
the arguments if there are any. The exit code is pytest's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from tempfile import TemporaryDirectory


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack all of an sdist but the package itself, and return its root."""
    with tarfile.open(sdist) as archive:
        members = [each for each in archive.getmembers() if "/src/" not in each.name]
        archive.extractall(folder, members, filter="data")
    (root,) = folder.iterdir()
    return root


def run(dist: Path, arguments: list[str]) -> int:
    """Run the tests of `dist`, and return pytest's exit code."""
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with TemporaryDirectory() as folder:
        root = unpack(sdist, Path(folder, "sdist"))
        venv.create(Path(folder, "venv"), with_pip=True)
        python = str(Path(folder, "venv", "Scripts" if os.name == "nt" else "bin", "python"))
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[test]"], check=True)
        env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        where = "import sodalite; print(sodalite.__file__)"
        found = subprocess.run([python, "-c", where], cwd=root, env=env, check=True, capture_output=True, text=True)
        assert Path(folder).resolve() in Path(found.stdout.strip()).resolve().parents, found.stdout
        given = arguments or ["-n", "2", "--dist", "worksteal", "tests"]
        return subprocess.run([python, "-m", "pytest", "-q", *given], cwd=root, env=env).returncode


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]), sys.argv[2:]))

"""Pack the launcher into one file that any Python of a cluster can run: a zip with a `__main__`, named by its contents.

It also has each module as compiled by this Python: a launcher starts at the moment in which a slot begins, and Python
caches no compiled code in a zip. A Python of another version ignores that and reads the source.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import marshal
import os
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
BASE = HERE.parent.parent.parent
PURE = (
    "__init__",
    "archives",
    "fields",
    "progress",
    "starting",
)  # modules of `scheduling/programs` about what processes are given and may report
EPOCH = (1980, 1, 1, 0, 0, 0)
UNCHECKED = (1).to_bytes(4, "little")  # flags of a `.pyc` with a hash of its source that Python does not compare
MAIN = """import sys
what = sys.argv[1] if sys.argv[1:] else ""
if what == "launch":  # before every process of a gang: it loads little
    from scheduling.engines.launcher.launch import main
    sys.exit(main(*sys.argv[2:]))
if what == "unpack":
    from scheduling.engines.launcher.unpack import main
    sys.exit(main())
from scheduling.engines.launcher.parts import main
sys.exit(main(sys.argv[1:]))
"""


def sources() -> list[Path]:
    """Return the modules that the file has."""
    packages = [HERE.parent.parent / "__init__.py", HERE.parent / "__init__.py", HERE.parent / "base.py"]
    pure = [HERE.parent.parent / "programs" / f"{name}.py" for name in PURE]
    return sorted([*packages, *pure, *HERE.glob("*.py")])


def launcher_file(folder: Path) -> Path:
    """Make the file in a folder and return its path. Where it exists, it stays as it is."""
    contents = {"__main__.py": MAIN.encode()}
    contents |= {str(path.relative_to(BASE)): path.read_bytes() for path in sources()}
    target = folder / f"launcher-{_digest(contents)}.pyz"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_bytes(_packed(contents))
        draft.chmod(0o644)
        draft.replace(target)
    return target


def _digest(contents: dict[str, bytes]) -> str:
    """Return a digest of the modules and of the Python that compiles them: another one may compile other bytes."""
    digest = hashlib.sha256(importlib.util.MAGIC_NUMBER)
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def _packed(contents: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in sorted(contents.items()):
            archive.writestr(zipfile.ZipInfo(name, EPOCH), content)
            archive.writestr(zipfile.ZipInfo(f"{name}c", EPOCH), compiled(name, content))
    return data.getvalue()


def compiled(name: str, source: bytes) -> bytes:
    """Return a module as a `.pyc` whose source Python does not check again (PEP 552): the file has both together."""
    code = compile(source, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)

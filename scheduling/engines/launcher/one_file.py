"""The launcher as one file that any Python of a cluster can run: a zip with a `__main__`, named by its contents.

Beside each module lies what this Python compiled of it, as a launcher starts in the moment in which a slot begins and a
zip keeps nothing that was compiled before. A Python of another version leaves that aside and reads the module.
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
)  # what processes are told and may say
EPOCH = (1980, 1, 1, 0, 0, 0)
UNCHECKED = (1).to_bytes(4, "little")  # named by a digest of its source, which is not to be compared
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
    """The modules in it."""
    packages = [HERE.parent.parent / "__init__.py", HERE.parent / "__init__.py", HERE.parent / "base.py"]
    pure = [HERE.parent.parent / "programs" / f"{name}.py" for name in PURE]
    return sorted([*packages, *pure, *HERE.glob("*.py")])


def launcher_file(folder: Path) -> Path:
    """The file, below the folder; where it exists, it is left as it is."""
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
    """Of the modules and of who compiles them: what is compiled of the same module need not be the same bytes."""
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
    """As a `.pyc` whose source nobody looks at again (PEP 552): the two come and go together."""
    code = compile(source, name, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)

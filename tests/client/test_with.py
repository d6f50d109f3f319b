"""`--with`: what is packed, by which names, and that the same files are the same archive."""

from __future__ import annotations

import io
import os
import tarfile
import time
from itertools import count
from pathlib import Path

import pytest
from django.core import signing
from django.db import connection
from django.utils import timezone

from bourse_client.command import packing
from bourse_client.command.exits import UsageError
from bourse_client.command.packing import packed
from scheduling.catalogue.read_entries import archive_refusals
from scheduling.models import ArchiveKeeping, ProgramArchivePiece, ProgramVersion
from scheduling.programs.stored import archive_pieces
from tenants.models import Tenant
from tenants.roles import OWNER
from tests.api.builders import program_of
from tests.catalogue.builders import allow
from tests.client.conftest import Bourse
from tests.scheduling.builders import make_server
from tests.scheduling.live import fund, make_live_pool
from tests.tenants.builders import make_tenant


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("train.py", "src/model.py", "src/data/a.txt", "src/__pycache__/x.pyc", "src/.git/HEAD", ".venv/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


def unpacked(archive: bytes) -> dict[str, tarfile.TarInfo]:
    assert archive_refusals(io.BytesIO(archive)) == []
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: member for member in tar.getmembers()}


def test_files_and_folders_come_along_by_their_names_from_here(here: Path) -> None:
    brought = packed(["train.py", "src/", str(here / "run.sh")], here)
    members = unpacked(brought.archive)
    assert list(members) == ["run.sh", "src/data/a.txt", "src/model.py", "train.py"]
    assert brought.names == tuple(members)
    assert (members["run.sh"].mode, members["train.py"].mode) == (0o755, 0o644)
    assert (brought.files, brought.bytes) == (4, sum(member.size for member in members.values()))
    assert brought.sentence.startswith("Brings 4 files, 44 bytes, ")
    assert {(member.mtime, member.uid, member.uname) for member in members.values()} == {(0, 0, "")}


def test_same_files_are_the_same_bytes(here: Path) -> None:
    before = packed(["src", "train.py"], here)
    os.utime(here / "train.py", (1, 1))
    (here / "src" / "model.py").write_text("src/model.py")
    (here / "train.py").chmod(0o600)
    again = packed(["./train.py", "src/", "train.py"], here)
    assert (again.archive, again.digest) == (before.archive, before.digest)
    (here / "train.py").write_text("other")
    assert packed(["src", "train.py"], here).digest != before.digest


def test_whole_folder_leaves_out_what_is_nobodys_code(here: Path) -> None:
    assert packed(["."], here).names == ("run.sh", "src/data/a.txt", "src/model.py", "train.py")


def test_links_to_files_come_along_and_links_to_folders_do_not(
    here: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("data")
    (data / "big").write_text("big")
    (here / "src" / "link.py").symlink_to(here / "train.py")
    (here / "src" / "data" / "all").symlink_to(data)
    (here / "src" / "lost").symlink_to("nowhere")
    os.mkfifo(here / "src" / "pipe")
    brought = packed(["src"], here)
    assert brought.names == ("src/data/a.txt", "src/link.py", "src/model.py")
    assert unpacked(brought.archive)["src/link.py"].isreg()
    assert brought.left_out == 3
    assert "left out, as links to folders, pipes or devices: 3" in brought.sentence


@pytest.mark.parametrize("name", ["../other", "/etc/passwd", "src/../.."])
def test_what_lies_outside_is_refused(here: Path, name: str) -> None:
    with pytest.raises(UsageError, match="outside of the current folder"):
        packed([name], here)


def test_what_is_not_there_is_named(here: Path) -> None:
    with pytest.raises(UsageError, match=r"--with none.py: No such file"):
        packed(["train.py", "none.py"], here)
    (here / "empty").mkdir()
    with pytest.raises(UsageError, match="no files that could come along"):
        packed(["empty"], here)


def test_more_than_may_come_along_names_the_largest(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (here / "src" / "big.bin").open("wb") as file:
        file.truncate(packing.MOST_BYTES + 1)
    with pytest.raises(
        UsageError, match=r"more than the 200 MiB that come along; the largest is src/big.bin with 200.0 MiB"
    ):
        packed(["src"], here)
    (here / "src" / "big.bin").write_bytes(os.urandom(5_000))
    monkeypatch.setattr(packing, "MOST_PACKED", 4_000)
    with pytest.raises(UsageError, match=r"MiB packed, in 3 files, are more than .* the largest is src/big.bin"):
        packed(["src"], here)
    monkeypatch.setattr(packing, "MOST_FILES", 2)
    with pytest.raises(UsageError, match="3 files are more than the 2 files that come along"):
        packed(["src"], here)


def test_very_many_files_are_named_by_their_folders(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MOST_NAMED", 3)
    assert packed(["."], here).names == ("run.sh", "src/", "train.py")


SCRIPT = "#!/bin/bash -eu\n#SBATCH --job-name=fit --gpus=1 --time=0:05:00\n\npython3 train.py\n"
WORDS = ("--pool", "main", "--by", "now+1hours", "--worth", "40")
ALONG = "   4  not kept    train.py does not come along: bring it with --with train.py."


@pytest.fixture
def lumen(web: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A tenant that may bring programs, in a pool of a running server; and the script beside its files."""
    make_server(make_live_pool(epoch_at=timezone.now(), slot_seconds=300), worker=8, ps=1)
    tenant: Tenant = make_tenant("lumen")
    fund(tenant)
    allow(tenant)
    (here / "fit.sbatch").write_text(SCRIPT)
    monkeypatch.chdir(here)
    return {"url": web, "token": program_of(OWNER, tenant).secret, "tenant": "lumen"}


def versions() -> list[tuple[str, int, str | None]]:
    rows = ProgramVersion.objects.select_related("program").order_by("pk")
    return [(row.program.name, row.version, row.archive_id) for row in rows]


@pytest.mark.django_db(transaction=True)
def test_script_is_submitted_with_its_files(bourse: Bourse, lumen: dict[str, str], here: Path) -> None:
    ended = bourse("jobs", "submit", "fit.sbatch", *WORDS, "--dry-run", **lumen)
    assert ALONG in ended.err.splitlines()
    brings = ("--with", "train.py", "--with", "src/")
    digest = packed(["train.py", "src/"], here).digest
    ended = bourse("jobs", "submit", "fit.sbatch", *WORDS, *brings, "--dry-run", **lumen)
    assert (ended.status, ended.err.startswith("Brings 3 files, 34 bytes, ")) == (0, True), ended.err
    assert ALONG not in ended.err
    assert versions() == [], "nothing is registered by asking"
    for _ in range(2):
        ended = bourse("jobs", "submit", "fit.sbatch", *WORDS, *brings, **lumen)
        assert ended.status == 0, ended.err
        assert "Brings 3 files" in ended.err
        assert versions() == [("fit-sbatch", 1, digest)]
    archive = b"".join(archive_pieces(digest))
    assert list(unpacked(archive)) == ["src/data/a.txt", "src/model.py", "train.py"]
    (here / "train.py").write_text("print(2)")
    assert bourse("jobs", "submit", "fit.sbatch", *WORDS, *brings, **lumen).status == 0
    assert [version for _, version, _ in versions()] == [1, 2]


@pytest.mark.django_db(transaction=True)
def test_files_that_are_kept_no_more_are_sent_again(bourse: Bourse, lumen: dict[str, str], here: Path) -> None:
    words = ("jobs", "submit", "fit.sbatch", *WORDS, "--with", "train.py")
    digest = packed(["train.py"], here).digest
    assert bourse(*words, **lumen).status == 0
    archive = b"".join(archive_pieces(digest))
    ArchiveKeeping.objects.update(closed_at=timezone.now(), removed_at=timezone.now())
    ProgramArchivePiece.objects.all()._raw_delete(using=connection.alias)
    ended = bourse(*words, **lumen)
    assert ended.status == 0, ended.err
    assert versions() == [("fit-sbatch", 1, digest)]
    assert b"".join(archive_pieces(digest)) == archive
    assert not ArchiveKeeping.objects.filter(closed_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_command_and_array_bring_their_files(bourse: Bourse, lumen: dict[str, str], here: Path) -> None:
    words = ("--gpus", "1", "--hours", "0.1", *WORDS, "--with", "train.py", "--", "python3", "train.py")
    ended = bourse("run", *words, **lumen)
    assert ended.status == 0, ended.err
    assert "does not come along" not in ended.err
    digest = packed(["train.py"], here).digest
    assert versions() == [("train-sbatch", 1, digest)]
    (here / "many.sbatch").write_text(SCRIPT.replace("--gpus=1", "--gpus=1 --array=0-2"))
    ended = bourse("jobs", "submit", "many.sbatch", *WORDS, "--with", "train.py", **lumen)
    assert ended.status == 0, ended.err
    assert "3 jobs" in ended.out
    assert versions()[1:] == [("fit-sbatch", 1, digest)]


@pytest.mark.django_db(transaction=True)
def test_files_are_for_scripts_and_nothing_is_sent_where_they_cannot_be(
    bourse: Bourse, lumen: dict[str, str], here: Path
) -> None:
    (here / "job.yaml").write_text("epochs: 1\n")
    ended = bourse("jobs", "submit", "job.yaml", "--pool", "main", "--with", "train.py", **lumen)
    assert (ended.status, "--with" in ended.err) == (2, True)
    ended = bourse("jobs", "submit", "fit.sbatch", *WORDS, "--with", "../x", **lumen)
    assert (ended.status, ended.err.startswith("bourse: --with ../x: it lies outside")) == (2, True)
    (here / "fit.sbatch").write_text(SCRIPT.replace("python3 train.py\n", ""))
    ended = bourse("jobs", "submit", "fit.sbatch", *WORDS, "--with", "train.py", **lumen)
    assert (ended.status, "belongs to a script that runs something" in ended.err) == (1, True), ended.err
    assert versions() == []


@pytest.mark.parametrize("words", [(), ("--archive", "align.tar.gz")])
@pytest.mark.django_db(transaction=True)
def test_program_is_registered_once_with_a_key(
    bourse: Bourse, lumen: dict[str, str], here: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = count(int(time.time()))
    monkeypatch.setattr(signing.TimestampSigner, "timestamp", lambda signer: signing.b62_encode(next(seconds)))
    monkeypatch.chdir(here)
    file = here / "align.yaml"
    file.write_text("name: align\nshape: all_reduce\ncommand: [python3, train.py]\n")
    (here / "align.tar.gz").write_bytes(packed(["train.py"], here).archive)
    for text in ("first", "first", "second", "second"):
        file.write_text(f"name: align\ntitle: The {text}\nshape: all_reduce\ncommand: [python3, train.py]\n")
        ended = bourse("programs", "register", file, *words, "--key", text, **lumen)
        assert ended.status == 0, ended.err
        assert ended.out.startswith(f"align, version {1 if text == 'first' else 2}: ")
    assert ProgramVersion.objects.count() == 2

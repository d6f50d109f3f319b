"""The files of a job: which there are, which are sent to whom, and that nothing leads out of a stranger's folder."""

from __future__ import annotations

import io
import json
import os
import socket
import tarfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from scheduling.catalogue import program_register, programs_allow, read_archives
from scheduling.jobs.read_files import JobFiles, job_file, job_files
from scheduling.jobs.read_stranger_files import (
    LONGEST_PATH,
    OpenedFile,
    Parts,
    file_opened,
    files_listed,
    path_said,
    path_shown,
)
from scheduling.models import ArchiveKeeping, Award, JobState, ProgramArchivePiece, RentState, Run, TrainingJob
from tenants.access import Access, Refused, access_of_system
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.database import as_superuser, overwrite
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.scheduling.pages import client_as

WORK: Parts = (b"job-7", b"work")
PROGRAM = {"name": "trainer", "parameters": {}}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "job-7" / "work"
    folder.mkdir(parents=True)
    return folder


def paths_in(root: Path, most: int = 1_000, **more: Any) -> list[str]:
    return [path_shown(file.path) for file in files_listed(root, WORK, most, **more).files]


def content(opened: OpenedFile | Refused | None) -> bytes:
    assert isinstance(opened, OpenedFile), opened
    return b"".join(opened.pieces(0, opened.about.bytes))


# The stranger's folder.


def test_files_are_listed_by_path_with_their_size_and_time(tmp_path: Path, work: Path) -> None:
    for name in ("b.txt", "a/z", "a/b/c", "a.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(name)
    os.utime(work / "b.txt", (1_770_000_000, 1_770_000_000))
    listing = files_listed(tmp_path, WORK, 1_000)
    assert [path_shown(file.path) for file in listing.files] == ["a/b/c", "a/z", "a.txt", "b.txt"]
    assert (listing.files[-1].bytes, listing.files[-1].changed_at) == (5, 1_770_000_000.0)
    assert (listing.more, listing.left_out) == (False, 0)


def test_list_ends_after_so_many_and_goes_on_behind_the_last(tmp_path: Path, work: Path) -> None:
    for number in range(25):
        (work / f"{number % 5}").mkdir(exist_ok=True)
        (work / f"{number % 5}" / f"{number:02}").touch()
    whole, pages, after, more = paths_in(tmp_path), list[str](), (), True
    while more:
        listing = files_listed(tmp_path, WORK, 4, after=after)
        pages += [path_shown(file.path) for file in listing.files]
        after, more = listing.files[-1].path, listing.more
    assert len(whole) == 25
    assert pages == whole


def test_links_pipes_sockets_and_second_names_are_left_out_and_never_opened(tmp_path: Path, work: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (work / "link").symlink_to(outside / "secret")
    (work / "folder").symlink_to(outside)
    os.link(outside / "secret", work / "second name")
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "socket"))
        listing = files_listed(tmp_path, WORK, 1_000)
        assert (listing.files, listing.left_out) == ((), 5)
        for path in ((b"second name",), (b"pipe",)):
            assert file_opened(tmp_path, WORK, path) is None
        for path in ((b"link",), (b"folder", b"secret"), (b"socket",), (b"none",)):
            with pytest.raises(OSError):
                file_opened(tmp_path, WORK, path)
    assert file_opened(tmp_path, (b"job-7",), (b"work",)) is None


def test_folder_that_is_a_link_itself_is_not_followed(tmp_path: Path, work: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    work.rmdir()
    work.symlink_to(outside)
    with pytest.raises(OSError):
        files_listed(tmp_path, WORK, 1_000)
    with pytest.raises(OSError):
        file_opened(tmp_path, WORK, (b"secret",))


def test_file_that_is_swapped_for_a_link_is_not_read(tmp_path: Path, work: Path) -> None:
    """What was listed a moment ago is opened anew, part by part."""
    (tmp_path / "secret").write_text("secret")
    (work / "a").mkdir()
    (work / "a" / "secret").write_text("mine")
    assert paths_in(tmp_path) == ["a/secret"]
    (work / "a" / "secret").unlink()
    (work / "a").rmdir()
    (work / "a").symlink_to(tmp_path)
    with pytest.raises(OSError):
        file_opened(tmp_path, WORK, (b"a", b"secret"))


def test_no_descriptor_is_left_open(tmp_path: Path, work: Path) -> None:
    (work / "a" / "b").mkdir(parents=True)
    (work / "a" / "b" / "c").write_text("c")
    (work / "a" / "link").symlink_to(tmp_path)
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        paths_in(tmp_path)
        content(file_opened(tmp_path, WORK, (b"a", b"b", b"c")))
        for path in ((b"a", b"link", b"x"), (b"a", b"none")):
            with pytest.raises(OSError):
                file_opened(tmp_path, WORK, path)
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_no_listing_reads_more_than_so_many_names(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.jobs.read_stranger_files.MOST_NAMES", 5)
    for number in range(8):
        (work / f"{number}").touch()
    listing = files_listed(tmp_path, WORK, 1_000)
    assert (len(listing.files), listing.more) == (5, True)
    monkeypatch.setattr("scheduling.jobs.read_stranger_files.MOST_NAMES", 100)
    monkeypatch.setattr("scheduling.jobs.read_stranger_files.MOST_LOOKED_AT", 20)
    for folder in "abc":
        (work / folder).mkdir()
        for number in range(8):
            (work / folder / f"{number}").touch()
    listing = files_listed(tmp_path, WORK, 1_000)
    assert 8 <= len(listing.files) < 32
    assert listing.more


def test_folders_without_end_are_left_out(tmp_path: Path, work: Path) -> None:
    deep = work.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    (deep / "file").touch()
    (work / "file").touch()
    listing = files_listed(tmp_path, WORK, 1_000)
    assert ([path_shown(file.path) for file in listing.files], listing.left_out) == (["file"], 1)


def test_file_is_sent_as_long_as_it_was_though_it_grows_or_is_cut(tmp_path: Path, work: Path) -> None:
    (work / "log").write_bytes(b"0123456789")
    opened = file_opened(tmp_path, WORK, (b"log",))
    assert opened is not None
    with (work / "log").open("ab") as file:
        file.write(b"more")
    assert b"".join(opened.pieces(2, opened.about.bytes)) == b"23456789"
    opened = file_opened(tmp_path, WORK, (b"log",))
    assert opened is not None
    os.truncate(work / "log", 3)
    assert b"".join(opened.pieces(0, opened.about.bytes)) == b"012"


PARTS = st.lists(
    st.binary(min_size=1, max_size=12).filter(lambda part: not set(part) & {0, 47} and part not in (b".", b"..")),
    min_size=1,
    max_size=4,
).map(tuple)


@given(PARTS)
def test_any_bytes_are_a_text_that_can_be_seen_and_read_back(path: Parts) -> None:
    text = path_shown(path)
    assert text.isprintable()
    assert path_said(text) == path


@pytest.mark.parametrize(
    "text",
    ["", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\\", "\\xg0", "\\x2", "a\0b",
     "\\x00", "\\x2e.", "a\\x2f",
     "\ud800", "a" * (LONGEST_PATH + 1)],
)  # fmt: skip
def test_text_that_is_no_path_below_the_folder_says_none(text: str) -> None:
    assert path_said(text) is None


# Of a job.


@pytest.fixture
def award(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Award:
    """A job of Lumen's that has run, with a model in its folder."""
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path / "runs")
    return awarded()


def awarded(**fields: Any) -> Award:
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    award: Award = make_award(pool, tenant, spec=SPEC | {"program": PROGRAM}, **fields)
    run_of(award)
    folder = folder_of(award)
    (folder / "checkpoint").mkdir(parents=True)
    (folder / ".bourse").mkdir()
    (folder / ".bourse" / "script.sh").write_text("echo")
    (folder / "checkpoint" / "model.pt").write_bytes(bytes(range(200)))
    (folder / "a <b>\n.txt").write_text("odd")
    return award


def run_of(award: Award) -> Run:
    with scope(award.tenant):
        return Run.objects.create(
            tenant=award.tenant, job=award.job, award=award, engine="local", key="a" * 32, program="trainer",
            state="finished", ends_at=timezone.now(), due_at=timezone.now(), seen_at=timezone.now(),
        )  # fmt: skip


def folder_of(award: Award) -> Path:
    return Path(django_settings.RUNS_DIR) / f"job-{award.job_id}" / "work"


def by(award: Award, *roles: str) -> Access:
    return Access(user=None, tenant=award.tenant, roles=frozenset(roles or {VIEWER}))


def files_of(award: Award, *roles: str, at: datetime | None = None) -> JobFiles:
    with scope(award.tenant):
        job = TrainingJob.objects.select_related("pool").get(pk=award.job_id)
        return job_files(job, by(award, *roles), at or timezone.now())


def opened_of(award: Award, path: str, *roles: str, at: datetime | None = None) -> OpenedFile | Refused:
    with scope(award.tenant):
        job = TrainingJob.objects.select_related("pool").get(pk=award.job_id)
        return job_file(job, by(award, *roles), at or timezone.now(), path_said(path) or ())


def content_of(award: Award, path: str, role: str) -> bytes | None:
    """None: it was refused."""
    opened = opened_of(award, path, role)
    return None if isinstance(opened, Refused) else content(opened)


def bytes_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


MODEL, ODD = "checkpoint/model.pt", "a <b>\\x0a.txt"


@pytest.mark.django_db
def test_files_of_a_job_are_listed_without_those_of_the_platform(award: Award) -> None:
    files = files_of(award)
    assert [(file.path, file.bytes) for file in files.files] == [(ODD, 3), (MODEL, 200)]
    assert (files.more, files.sentence, files.kept_until) == (False, "", None)
    assert content(opened_of(award, MODEL)) == bytes(range(200))
    refused = opened_of(award, ".bourse/script.sh")
    assert isinstance(refused, Refused)
    assert refused.code == "unknown_file"


@pytest.mark.django_db
def test_interface_lists_and_sends_them_and_another_tenant_finds_nothing(award: Award) -> None:
    client, base = client_as("viewer", award.tenant), f"/api/v1/tenants/lumen/jobs/{award.job_id}/files/"
    answer = client.get(base).json()
    assert [file["path"] for file in answer["files"]] == [ODD, MODEL]
    reply = client.get(f"{base}content/", {"path": MODEL})
    assert (reply.status_code, bytes_of(reply)) == (200, bytes(range(200)))
    assert reply.headers["Content-Disposition"] == 'attachment; filename="model.pt"'
    assert reply.headers["Content-Type"] == "application/octet-stream"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert (reply.headers["Content-Length"], reply.headers["Accept-Ranges"]) == ("200", "bytes")
    odd = client.get(f"{base}content/", {"path": ODD})
    assert bytes_of(odd) == b"odd"
    assert "\n" not in odd.headers["Content-Disposition"]
    after = client.get(base, {"after": ODD}).json()
    assert [file["path"] for file in after["files"]] == [MODEL]
    for path in ("checkpoint", "none", ".bourse/script.sh"):
        missing = client.get(f"{base}content/", {"path": path})
        assert (missing.status_code, missing.json()["code"]) == (404, "unknown_file"), path
    assert client.get(f"{base}content/").status_code == 404
    for path in ("../../x", "/etc/passwd"):
        assert client.get(f"{base}content/", {"path": path}).status_code == 400
    reader = client_as("owner", make_tenant("castor"))
    for slug in ("castor", "lumen"):
        for place in ("", f"content/?path={MODEL}"):
            assert reader.get(f"/api/v1/tenants/{slug}/jobs/{award.job_id}/files/{place}").status_code == 404


@pytest.mark.django_db
def test_part_of_a_file_is_sent_where_it_is_asked_for(award: Award) -> None:
    client, base = client_as("viewer", award.tenant), f"/api/v1/tenants/lumen/jobs/{award.job_id}/files/content/"

    def reply_to(range_header: str, **headers: str) -> tuple[int, bytes, str | None]:
        answer = client.get(base, {"path": MODEL}, headers={"range": range_header} | headers)
        return answer.status_code, bytes_of(answer), answer.headers.get("Content-Range")

    whole = bytes(range(200))
    assert reply_to("bytes=150-") == (206, whole[150:], "bytes 150-199/200")
    assert reply_to("bytes=10-19") == (206, whole[10:20], "bytes 10-19/200")
    assert reply_to("bytes=10-900") == (206, whole[10:], "bytes 10-199/200")
    assert reply_to("bytes=-5") == (206, whole[-5:], "bytes 195-199/200")
    head = client.head(base, {"path": MODEL})
    assert (head.headers["Content-Length"], bytes_of(head)) == ("200", b"")
    for nonsense in ("bytes=200-", "bytes=9-3", "bytes=-", "bytes=0-1,5-6", "lines=1-2", "bytes=x-"):
        assert reply_to(nonsense) == (200, whole, None), nonsense
    answer = client.get(base, {"path": MODEL})
    tag = answer.headers["ETag"]
    assert bytes_of(answer) == whole
    assert reply_to("bytes=150-", **{"if-range": tag})[0] == 206
    (folder_of(award) / MODEL).write_bytes(whole + b"x")
    assert reply_to("bytes=150-", **{"if-range": tag}) == (200, whole + b"x", None)


@pytest.mark.django_db
def test_page_lists_the_first_and_says_how_many_more_there_are(award: Award) -> None:
    client, base = client_as("viewer", award.tenant), f"/t/lumen/jobs/{award.job_id}/"
    html = client.get(base).content.decode()
    assert "h-files" in html
    assert "a &lt;b&gt;\\x0a.txt" in html
    assert f'href="/t/lumen/jobs/{award.job_id}/files/content/?path=checkpoint%2Fmodel.pt"' in html
    reply = client.get(f"{base}files/content/", {"path": MODEL})
    assert bytes_of(reply) == bytes(range(200))
    assert reply.headers["Content-Disposition"].startswith("attachment")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"{base}files/content/", {"path": "../x"}).status_code == 404
    assert client.get(f"{base}files/content/", {"path": "none"}).status_code == 404
    assert client_as("billing", award.tenant).get(f"{base}files/content/", {"path": MODEL}).status_code == 403
    other = client_as("owner", make_tenant("castor"))
    assert other.get(f"/t/castor/jobs/{award.job_id}/files/content/", {"path": MODEL}).status_code == 404
    for number in range(30):
        (folder_of(award) / f"x{number:02}").touch()
    (folder_of(award) / "link").symlink_to("x00")
    part = " ".join(client.get(f"{base}?part=files").content.decode().split())
    assert part.count("files/content/") == 20
    assert "And 12 others:" in part
    assert "1 link, pipe or closed file left out" in part


@pytest.mark.django_db
def test_page_has_no_such_section_where_there_is_nothing_to_tell(award: Award) -> None:
    with scope(award.tenant), as_superuser():
        Run.objects.get(job=award.job).delete()
    assert files_of(award).sentence == "The job has not begun, so it has no files yet."
    html = client_as("viewer", award.tenant).get(f"/t/lumen/jobs/{award.job_id}/").content.decode()
    assert "h-files" not in html
    with scope(award.tenant):
        del award.job.spec["program"]
        overwrite(award.job)
    assert files_of(award).sentence == "The job runs no program, so it has no files."


def ended(award: Award, at: datetime, state: str = JobState.FINISHED) -> None:
    with scope(award.tenant):
        award.job.state, award.job.ended_at, award.job.reason_code = state, at, "given_up"
        overwrite(award.job)


@pytest.mark.django_db
def test_files_that_are_gone_by_the_clock_are_told_with_the_rule(award: Award, settings: Any) -> None:
    settings.RETENTION_RUN_FILES_DAYS = 30
    ended(award, datetime(2026, 3, 2, 12, tzinfo=UTC))
    until = datetime(2026, 4, 2, tzinfo=UTC)
    assert files_of(award, at=until - timedelta(days=3)).kept_until == until
    folder_of(award).parent.rename(folder_of(award).parent.with_name("elsewhere"))
    early = files_of(award, at=until - timedelta(seconds=1))
    assert (early.sentence, early.is_told) == ("The job has no files here any more.", False)
    answer = files_of(award, at=until)
    rule = "Files of a job are kept for 30 days after its end; those of this one could go from 2026-04-02 (UTC) on."
    assert (answer.sentence, answer.is_told, answer.files) == (rule, True, ())
    refused = opened_of(award, MODEL, at=until)
    assert isinstance(refused, Refused)
    assert refused.sentence == rule
    assert rule in client_as("viewer", award.tenant).get(f"/t/lumen/jobs/{award.job_id}/").content.decode()


@pytest.mark.django_db
def test_folder_that_is_closed_to_the_server_is_told_as_such(award: Award, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root reads everything, the kernel's answer is given here."""

    def closed(*names: Any, **more: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("scheduling.jobs.read_files.files_listed", closed)
    monkeypatch.setattr("scheduling.jobs.read_files.file_opened", closed)
    files, refused = files_of(award), opened_of(award, MODEL)
    assert (files.sentence.startswith("The folder of this job is closed"), files.is_told) == (True, True)
    assert isinstance(refused, Refused)
    assert "closed this file to others" in refused.sentence


@pytest.mark.django_db
def test_day_of_the_rule_is_that_of_the_retention(award: Award, settings: Any) -> None:
    from scheduling.app.retention import limits_at

    settings.RETENTION_RUN_FILES_DAYS = 30
    for moment in (datetime(2026, 3, 2, tzinfo=UTC), datetime(2026, 3, 2, 23, 59, 59, tzinfo=UTC)):
        ended(award, moment)
        until = files_of(award, at=moment).kept_until
        assert until is not None
        before, after = limits_at(until - timedelta(seconds=1)).run_files, limits_at(until).run_files
        assert before is not None
        assert after is not None
        assert before <= moment < after


@pytest.mark.django_db
def test_no_file_is_given_of_a_job_whose_parts_may_still_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path / "runs")
    award = awarded(work=1, rent=RentState.OPEN)
    award.job.pool.batch_policy = {**award.job.pool.batch_policy, "parts": "nothing"}
    overwrite(award.job.pool)
    assert "worth nothing" in files_of(award).sentence
    assert isinstance(opened_of(award, MODEL), Refused)
    with scope(award.tenant):
        award.rent = RentState.CLOSED
        overwrite(award)
    assert len(files_of(award).files) == 2
    ended(award, timezone.now(), JobState.EXPIRED)
    assert "what it paid came back" in files_of(award).sentence
    assert isinstance(opened_of(award, MODEL), Refused)


# With an archive.


def packed(**contents: bytes) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, data in contents.items():
            about = tarfile.TarInfo(f"./{name}.py")
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))
    return file


def with_program(award: Award, owner: Access) -> None:
    document = {"name": "align", "shape": "all_reduce", "command": ["python3", "train.py"]}
    outcome = program_register(
        document=document, archive=packed(train=b"words"), by=owner, at=timezone.now(),
        reason="" if owner.tenant else "for all",
    )  # fmt: skip
    assert not isinstance(outcome, Refused), outcome
    named = {"name": "align", "version": 1, "parameters": {}} | ({} if owner.tenant else {"owner": "operator"})
    with scope(award.tenant):
        award.job.spec["program"] = named
        overwrite(award.job)
    (folder_of(award) / "train.py").write_text("words")


@pytest.mark.django_db
def test_files_of_an_archive_are_for_those_who_may_read_the_programs_words(award: Award) -> None:
    operator = access_of_system("test")
    programs_allow(tenant=award.tenant, may_bring=True, by=operator, at=timezone.now(), reason="test")
    with_program(award, by(award, OWNER))
    for role, sees in ((VIEWER, True), (SUBMITTER, True), (OPERATOR, True), (AUDITOR, False)):
        paths = [file.path for file in files_of(award, role).files]
        assert ("train.py" in paths, MODEL in paths) == (sees, True), role
        assert content_of(award, "train.py", role) == (b"words" if sees else None), role
    assert content(opened_of(award, MODEL, AUDITOR)) == bytes(range(200))


@pytest.mark.django_db
def test_files_of_the_operators_archive_are_not_the_tenants(award: Award) -> None:
    with_program(award, access_of_system("test"))
    assert [file.path for file in files_of(award, OWNER).files] == [ODD, MODEL]
    assert isinstance(opened_of(award, "train.py", OWNER), Refused)
    assert content_of(award, "train.py", OPERATOR) == b"words"


@pytest.mark.django_db
def test_where_nobody_knows_any_more_what_came_along_others_are_shown_nothing(award: Award) -> None:
    """The content of the archive is kept no more: any of these files may be one of its."""
    operator = access_of_system("test")
    programs_allow(tenant=award.tenant, may_bring=True, by=operator, at=timezone.now(), reason="test")
    with_program(award, by(award, OWNER))
    ArchiveKeeping.objects.update(closed_at=timezone.now(), removed_at=timezone.now())
    ProgramArchivePiece.objects.all()._raw_delete(using=connection.alias)
    read_archives._names.cache_clear()  # another test's archive may be the same
    assert [file.path for file in files_of(award, OWNER).files] == [ODD, MODEL, "train.py"]
    assert files_of(award, AUDITOR).files == ()
    assert isinstance(opened_of(award, MODEL, AUDITOR), Refused)


# On a cluster.


@pytest.fixture
def shared(award: Award, tmp_path: Path, settings: Any) -> Path:
    """The shared folder of a cluster on which the job ran after all."""
    folder, engines = tmp_path / "shared", tmp_path / "engines.json"
    described = {"kind": "slurm", "partition": "main", "shared": str(folder)}
    engines.write_text(json.dumps({"cluster": described}))
    settings.ENGINES_FILE = str(engines)
    with scope(award.tenant):
        run = Run.objects.get(job=award.job)
        run.engine = "cluster"
        overwrite(run)
    return folder


@pytest.mark.django_db
def test_files_on_a_cluster_are_those_in_its_shared_folder(award: Award, shared: Path) -> None:
    unseen = files_of(award)
    sentence = "The files of this job lie in the shared folder of cluster, which this server does not see."
    assert (unseen.sentence, unseen.is_told, unseen.files) == (sentence, True, ())
    work = shared / f"job-{award.job_id}" / "work"
    work.mkdir(parents=True)
    (shared / "alive").touch()
    (work / "weights").write_bytes(b"cluster")
    assert [file.path for file in files_of(award).files] == ["weights"]
    assert content(opened_of(award, "weights")) == b"cluster"
    (work / "weights").unlink()
    assert files_of(award).sentence == "Its program has written no files."
    work.rmdir()
    assert files_of(award).sentence == "The job has no files here any more."


@pytest.mark.django_db
def test_engine_that_is_not_configured_any_more_is_told_so(award: Award, shared: Path, settings: Any) -> None:
    settings.ENGINES_FILE = ""
    assert "does not see" in files_of(award).sentence

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from marketplace.embedded import DURABLE, FORGETFUL, AlreadyRunning, CannotStart, Servers, State
from marketplace.embedded.state import LONGEST_SOCKET_PATH
from marketplace.processes import children
from marketplace.processes.children import ChildFailed
from tests.patience import PATIENCE

ROOT = Path(__file__).parent.parent.parent

HOLDER = """
import signal, sys
from pathlib import Path
from marketplace.embedded import Servers, State
servers = Servers(State(Path(sys.argv[1])))
servers.start()
print(*[child.pid for child in servers.running], flush=True)
signal.pause()
"""


def make_servers(folder: Path, settings: tuple[str, ...] = FORGETFUL) -> Servers:
    return Servers(State(folder), settings=settings)


@pytest.fixture(scope="module")
def running() -> Iterator[Servers]:
    """For the tests that only look."""
    with tempfile.TemporaryDirectory(prefix="bourse-test-") as folder, make_servers(Path(folder)) as servers:
        yield servers


def write_row(state: State) -> None:
    with psycopg.connect(state.owner_url) as connection:
        connection.execute("CREATE TABLE kept (word text)")
        connection.execute("INSERT INTO kept VALUES ('still here')")


def read_row(state: State) -> str:
    with psycopg.connect(state.owner_url) as connection:
        row = connection.execute("SELECT word FROM kept").fetchone()
    assert row is not None
    return str(row[0])


def assert_gone(pids: list[int]) -> None:
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE)
    assert alive == []


def test_both_servers_answer_and_keep_data_over_a_restart(short_folder: Path) -> None:
    with make_servers(short_folder) as servers:
        write_row(servers.state)
        with redis.Redis.from_url(servers.state.redis_url) as client:
            assert client.ping()
        pids = [child.pid for child in servers.running]
    assert_gone(pids)
    with make_servers(short_folder) as servers:
        assert read_row(servers.state) == "still here"


def test_nothing_listens_on_a_network(running: Servers) -> None:
    for child in running.running:
        assert psutil.Process(child.pid).net_connections(kind="inet") == []


def test_sockets_data_and_passwords_are_closed_to_others(running: Servers) -> None:
    state = running.state
    for place in (state.sockets, state.data, state.folder / "passwords.json", state.sockets / "valkey"):
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0, place


@pytest.mark.parametrize("password", ["wrong", ""])
def test_socket_alone_opens_nothing_without_the_password(running: Servers, password: str) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host=str(running.state.sockets), user="postgres", dbname="postgres", password=password)


def test_product_does_not_log_in_as_superuser(running: Servers) -> None:
    with psycopg.connect(running.state.database_url) as connection:
        assert connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (False,)


def test_product_logs_in_as_a_role_that_owns_nothing(running: Servers) -> None:
    with psycopg.connect(running.state.database_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("CREATE TABLE mine (word text)")


def as_an_older_version_left_it(state: State) -> None:
    """One role beside the superuser, which makes databases and owns all that is in ours."""
    with psycopg.connect(state.superuser_url, dbname="bourse") as connection:
        connection.execute("REASSIGN OWNED BY bourse_owner TO bourse")
        connection.execute("DROP OWNED BY bourse_owner")
        connection.execute("DROP ROLE bourse_owner")
        connection.execute("ALTER ROLE bourse CREATEDB")


def test_data_of_an_older_version_get_an_owner_of_their_own_and_are_all_there(short_folder: Path) -> None:
    with make_servers(short_folder) as servers:
        write_row(servers.state)
        as_an_older_version_left_it(servers.state)
    for _ in ("the first start after it", "and whenever it starts again"):
        with make_servers(short_folder) as servers:
            assert read_row(servers.state) == "still here"
            with psycopg.connect(servers.state.database_url) as connection:
                assert connection.execute("SELECT rolcreatedb FROM pg_roles WHERE rolname = 'bourse'").fetchone() == (
                    False,
                )
                owners = "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relname = 'kept'"
                assert connection.execute(owners).fetchone() == ("bourse_owner",)
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute("DROP TABLE kept")


def test_what_was_committed_is_there_after_the_servers_were_killed(short_folder: Path) -> None:
    with make_servers(short_folder, DURABLE) as servers:
        write_row(servers.state)
        for child in servers.running:
            os.kill(child.pid, signal.SIGKILL)
            child.process.wait(PATIENCE)
    with make_servers(short_folder) as servers:
        assert read_row(servers.state) == "still here"


@pytest.mark.one_case
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
@pytest.mark.parametrize("stopped", [False, True])
def test_servers_end_with_a_parent_that_was_killed_and_start_again(short_folder: Path, stopped: bool) -> None:
    """Those that are stopped at that moment hear of it only when somebody lets them go on: here their successors do."""
    command = [sys.executable, "-c", HOLDER, str(short_folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pids = [int(word) for word in holder.stdout.readline().split()]
        write_row(State(short_folder))
        for pid in pids if stopped else ():
            os.kill(pid, signal.SIGSTOP)
        holder.kill()
    assert len(pids) == 2
    if not stopped:
        assert_gone(pids)
    with make_servers(short_folder) as servers, redis.Redis.from_url(servers.state.redis_url) as client:
        assert_gone(pids)
        assert client.ping()
        assert read_row(servers.state) == "still here"


def test_server_that_was_killed_starts_again_beside_a_session_that_does_not_end(short_folder: Path) -> None:
    with make_servers(short_folder, DURABLE) as servers:
        write_row(servers.state)
        with psycopg.connect(servers.state.database_url, autocommit=True) as connection:
            [session] = connection.execute("SELECT pg_backend_pid()").fetchone() or ()
            os.kill(session, signal.SIGSTOP)
            database, broker = servers.running
            for child in (database, broker):
                os.kill(child.pid, signal.SIGKILL)
                children.stop(child)
                servers.start_again(child.name)
        for name in (database.name, broker.name):
            children.wait_until(partial(servers.answers, name), servers.running[0])
        assert read_row(servers.state) == "still here"
        assert_gone([session])
        shutil.rmtree(servers.state.data)
        with pytest.raises(ChildFailed, match="The data of PostgreSQL are gone"):
            servers.start_again(database.name)


def test_note_of_a_killed_server_whose_number_a_stranger_now_has_is_no_obstacle(short_folder: Path) -> None:
    with make_servers(short_folder) as servers:
        data = servers.state.data
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
    with make_servers(short_folder):
        pass


def test_second_start_in_the_same_folder_says_who_is_there(running: Servers) -> None:
    with pytest.raises(AlreadyRunning, match=f"process {os.getpid()}, with its data in {running.state.folder}"):
        make_servers(running.state.folder).start()


def test_folder_is_held_while_its_servers_run_and_free_afterwards(short_folder: Path) -> None:
    assert not State(short_folder).is_held()
    with make_servers(short_folder) as servers:
        assert servers.state.is_held()
    assert not State(short_folder).is_held()


@pytest.mark.wide
def test_two_folders_run_side_by_side(short_folder: Path) -> None:
    with make_servers(short_folder / "a") as one, make_servers(short_folder / "b") as other:
        write_row(one.state)
        with pytest.raises(psycopg.errors.UndefinedTable):
            read_row(other.state)


@pytest.mark.wide
def test_start_that_was_cut_off_during_initdb_leaves_nothing_in_the_way(short_folder: Path) -> None:
    half_made = short_folder / "new-interrupted" / "postgres"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18")
    with make_servers(short_folder):
        pass


def test_lost_passwords_are_an_error_that_says_so(short_folder: Path) -> None:
    with make_servers(short_folder):
        pass
    (short_folder / "passwords.json").unlink()
    with pytest.raises(CannotStart, match=r"passwords\.json does not fit the data"):
        make_servers(short_folder).start()
    assert not State(short_folder).is_held()


def test_server_that_cannot_start_is_named_with_its_last_lines(short_folder: Path) -> None:
    servers = Servers(State(short_folder), settings=("shared_buffers=nonsense",))
    with pytest.raises(
        ChildFailed, match=r'PostgreSQL ended with code 1(.|\n)*invalid value for parameter "shared_buf'
    ):
        servers.start()
    assert servers.running == []
    assert not servers.state.is_held()


def test_long_path_gets_a_short_place_for_its_sockets() -> None:
    state = State(Path("/srv") / ("long" * 30))
    assert len(os.fsencode(state.sockets / ".s.PGSQL.5432")) <= LONGEST_SOCKET_PATH
    assert state.sockets != State(Path("/srv") / ("else" * 30)).sockets


def test_socket_folder_of_somebody_else_is_refused(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (short_folder / "sockets").symlink_to("/")
    with pytest.raises(CannotStart, match="belongs to somebody else"):
        make_servers(short_folder).start()

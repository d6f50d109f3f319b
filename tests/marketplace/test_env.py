from pathlib import Path

import pytest

from marketplace import addresses, env
from marketplace.env import BadEnvironment


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch):
    def set_to(value: str | None) -> str:
        monkeypatch.delenv("WISH", raising=False)
        if value is not None:
            monkeypatch.setenv("WISH", value)
        return "WISH"

    return set_to


def test_missing_variable_without_default_is_an_error_that_names_it(variable) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH is not set: expected a whole number from 1 to 9\.$"):
        env.integer(variable(None), least=1, most=9)


@pytest.mark.parametrize("value", [None, "", "   "])
def test_unset_and_blank_variables_take_the_default(variable, value: str | None) -> None:
    assert env.integer(variable(value), 7, least=1, most=9) == 7


def test_default_of_false_is_a_default(variable) -> None:
    assert env.flag(variable(None), False) is False


@pytest.mark.parametrize("value", ["eight", "8.0", "0", "10", "1e1"])
def test_number_outside_its_range_or_no_number_names_variable_range_and_value(variable, value: str) -> None:
    with pytest.raises(BadEnvironment, match=f"^WISH: expected a whole number from 1 to 9, found '{value}'.$"):
        env.integer(variable(value), least=1, most=9)


@pytest.mark.parametrize(
    ("value", "meaning"), [("1", True), ("TRUE", True), (" yes ", True), ("off", False), ("0", False)]
)
def test_flag_reads_the_usual_words(variable, value: str, meaning: bool) -> None:
    assert env.flag(variable(value)) is meaning


def test_flag_refuses_to_guess(variable) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH: expected true or false, found 'ture'\.$"):
        env.flag(variable("ture"))


def test_words_are_split_at_commas_and_trimmed(variable) -> None:
    assert env.words(variable(" a.example, b.example ,,")) == ["a.example", "b.example"]


def test_numbers_are_split_at_commas(variable) -> None:
    assert env.integers(variable("443, 8443"), least=1, most=65535) == [443, 8443]
    assert env.integers(variable(None), None, least=1, most=65535) is None


@pytest.mark.parametrize("value", ["443;8443", "443,", "0", "65536", "https"])
def test_list_with_what_is_no_number_in_range_is_refused(variable, value: str) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH: expected whole numbers from 1 to 65535 with commas"):
        env.integers(variable(value), least=1, most=65535)


def test_choice_lists_what_there_is(variable) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH: expected one of json, text, found 'xml'\.$"):
        env.choice(variable("xml"), among=("text", "json"))


def test_bad_address_is_refused_without_showing_its_password(variable) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH: expected an address that begins with redis://\.$") as caught:
        env.url(variable("mysql://user:hunter2@host/name"), schemes=("redis",))
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://bourse:pass@word/x@db.lab:5432/bourse",
        "postgresql://bourse:pa#ss@db.lab/bourse",
        "postgresql://bourse:pass@wo@db.lab/bourse",
        "postgresql://bourse:pass@db.lab",
        "postgresql://bourse:pass@db.lab:port/bourse",
    ],
)
def test_address_of_a_database_that_cannot_be_one_is_refused_without_a_look_at_it(variable, address: str) -> None:
    """A part of the password would be taken for a host, and be looked up in the network."""
    variable(address)
    with pytest.raises(BadEnvironment, match="WISH") as refusal:
        env.url("WISH", schemes=addresses.DATABASE_SCHEMES, flaw=addresses.database_flaw)
    assert "pa" not in str(refusal.value).replace("password", "")


@pytest.mark.parametrize(
    "address", ["none://", "postgresql://a:p%40ss@:5432/bourse?host=/run/x", "postgres:///bourse", "postgresql://h/b"]
)
def test_address_of_a_database_that_can_be_one_is_taken(variable, address: str) -> None:
    variable(address)
    assert env.url("WISH", schemes=addresses.DATABASE_SCHEMES, flaw=addresses.database_flaw) == address


@pytest.mark.parametrize("host", ["https://bourse.example", "bourse.example:443", "bourse.example/"])
def test_host_is_a_name_alone(variable, host: str) -> None:
    variable(f"localhost,{host}")
    with pytest.raises(BadEnvironment, match="names without https:// and without a port"):
        env.hosts("WISH")
    variable("*, .lab.example,[::1]")
    assert env.hosts("WISH") == ["*", ".lab.example", "[::1]"]


def test_short_secret_is_refused_without_showing_it(variable) -> None:
    with pytest.raises(BadEnvironment, match=r"^WISH: expected at least 50 characters, found 7\.$"):
        env.secret(variable("hunter2"), least=50)


def test_secret_can_come_from_a_file(variable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from the file\n")
    monkeypatch.setenv("WISH_FILE", str(tmp_path / "secret"))
    assert env.secret(variable(None)) == "from the file"


def test_secret_file_that_cannot_be_read_is_named(variable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WISH_FILE", "/nowhere/at/all")
    with pytest.raises(BadEnvironment, match=r"^WISH_FILE: cannot read '/nowhere/at/all' \(No such file"):
        env.secret(variable(None))


def test_secret_file_as_windows_writes_it_is_read(variable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a mark of its encoding before, and a carriage return behind it."""
    (tmp_path / "secret").write_bytes(b"\xef\xbb\xbffrom the file\r\n")
    monkeypatch.setenv("WISH_FILE", str(tmp_path / "secret"))
    assert env.secret(variable(None)) == "from the file"
    assert env.secrets(variable(None), [], least=13) == ["from the file"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"hunter\xff2", "WISH_FILE: the file {!r} is not text in UTF-8."),
        ("hunter2".encode("utf-16"), "WISH_FILE: the file {!r} is not text in UTF-8."),
        (b"", "WISH_FILE: the file {!r} is empty."),
        (b" \n\n", "WISH_FILE: the file {!r} is empty."),
        (b"hunter2\n", "WISH_FILE: expected at least 50 characters in the file {!r}, found 7."),
        (None, "WISH_FILE: cannot read {!r} (Is a directory)."),
    ],
)
def test_secret_file_with_something_else_is_named_without_showing_it(
    variable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    file = tmp_path / "secret"
    file.mkdir() if content is None else file.write_bytes(content)
    monkeypatch.setenv("WISH_FILE", str(file))
    with pytest.raises(BadEnvironment) as refusal:
        env.secret(variable(None), least=50)
    assert str(refusal.value) == sentence.format(str(file))
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_file_of_an_optional_secret_is_not_empty(variable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody who names a file means no password. Several keys may have become none."""
    (tmp_path / "secret").touch()
    monkeypatch.setenv("WISH_FILE", str(tmp_path / "secret"))
    with pytest.raises(BadEnvironment, match="is empty"):
        env.secret(variable(None), "", least=0)
    assert env.secrets(variable(None), [], least=50) == []
    (tmp_path / "secret").write_text("short\n")
    with pytest.raises(BadEnvironment, match=r"^WISH_FILE: expected at least 50 characters each in the file '.*'"):
        env.secrets(variable(None), [], least=50)


def test_database_address_becomes_django_settings() -> None:
    settings = addresses.database("postgresql://bo%40urse:p%2Fw@db.example:6432/market?sslmode=require")
    assert settings == {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "market",
        "USER": "bo@urse",
        "PASSWORD": "p/w",
        "HOST": "db.example",
        "PORT": "6432",
        "OPTIONS": {"connect_timeout": addresses.CONNECT_SECONDS, "sslmode": "require"} | addresses.UNTIL_GONE,
    }


def test_socket_folder_in_a_database_address_is_the_host() -> None:
    settings = addresses.database("postgresql://bourse:x@:5432/bourse?host=/var/a%20b")
    assert (settings["HOST"], settings["PORT"], "host" in settings["OPTIONS"]) == ("/var/a b", "5432", False)


@pytest.mark.parametrize(
    ("address", "broker"),
    [
        ("redis://:pw@host:6379/3", "redis://:pw@host:6379/3"),
        ("unix:///run/v/valkey?db=2", "redis+socket:///run/v/valkey?virtual_host=2"),
    ],
)
def test_broker_address_is_what_celery_calls_it(address: str, broker: str) -> None:
    assert addresses.celery_broker(address) == broker


@pytest.mark.parametrize(
    ("address", "number"),
    [
        ("redis://127.0.0.1:6379/3", "3"),
        ("rediss://:secret@redis.example", "0"),
        ("redis://127.0.0.1:6379?db=4", "4"),
        ("unix:///run/valkey.sock?db=1", "1"),
        ("unix:///run/valkey.sock", "0"),
    ],
)
def test_installations_in_two_databases_of_one_redis_publish_under_two_names(address: str, number: str) -> None:
    assert addresses.redis_database(address) == number


def test_several_secrets_come_with_commas_or_by_lines_of_a_file(variable, monkeypatch, tmp_path: Path) -> None:
    assert env.secrets(variable(None), [], least=3) == []
    assert env.secrets(variable("abc, defg"), [], least=3) == ["abc", "defg"]
    with pytest.raises(BadEnvironment, match=r"^WISH: expected at least 4 characters each, found 3\.$"):
        env.secrets("WISH", [], least=4)
    (tmp_path / "keys").write_text("newest-key\nolder,key\n")
    monkeypatch.setenv("WISH_FILE", str(tmp_path / "keys"))
    assert env.secrets(variable(None), [], least=3) == ["newest-key", "older,key"]

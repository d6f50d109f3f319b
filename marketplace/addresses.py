"""Turn an address from the environment into the forms that Django, Celery and Channels need."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

DATABASE_SCHEMES = ("postgresql", "postgres", "none")
REDIS_SCHEMES = ("redis", "rediss", "unix")
# The longest wait for a server that takes a connection, or nothing, and stays silent. The driver's own is 130 s.
CONNECT_SECONDS = 10
# When a connection ends whose other side is gone without a word: a machine, or the network to it. The system's own are
# two hours while we wait for an answer, and a quarter of one while what we sent is not confirmed. Both are needed.
GONE_SECONDS = 60
UNTIL_GONE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 1000 * GONE_SECONDS,
}


def database(address: str) -> dict[str, Any]:
    """Return Django's settings for `postgresql://user:password@host:port/name?sslmode=require`; a folder of sockets is
    given as `?host=`.

    `none://` is for commands that need no database, such as `makemigrations --check`.
    """
    parts = urlsplit(address)
    if parts.scheme == "none":
        return {"ENGINE": "django.db.backends.dummy"}
    options: dict[str, Any] = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": {"connect_timeout": CONNECT_SECONDS} | UNTIL_GONE | options,
    }


def database_flaw(address: str) -> str:
    """Return why an address cannot be one, as the end of a sentence; empty if it can. A character of a password that
    ends it, such as `@`, makes the rest of the password a host, which would be looked up in the network and be written
    to logs."""
    parts = urlsplit(address)
    if parts.scheme in ("", "none"):
        return ""
    name = parts.path.removeprefix("/")
    if not name:
        return "expected postgresql://user:password@host:port/name, and it has no name of a database."
    if set("/@:") & set(name) or parts.fragment or parts.netloc.count("@") > 1:
        return "write signs of a password such as @, /, : and # as %40, %2F, %3A and %23."
    return ""


def role(database: dict[str, Any]) -> str:
    """Return the role under which its connections work."""
    return str(database.get("OPTIONS", {}).get("assume_role") or database.get("USER", ""))


def celery_broker(redis_address: str) -> str:
    """Return the broker's address: Celery names the socket transport differently from every other Redis client."""
    parts = urlsplit(redis_address)
    if parts.scheme != "unix":
        return redis_address
    number = parse_qs(parts.query).get("db", ["0"])[-1]
    return f"redis+socket://{parts.path}?{urlencode({'virtual_host': number})}"


def redis_database(redis_address: str) -> str:
    """Return the number of the database. Published messages are shared by all databases, so it must be part of their
    names."""
    parts = urlsplit(redis_address)
    in_path = "" if parts.scheme == "unix" else parts.path.strip("/")
    return parse_qs(parts.query).get("db", [in_path or "0"])[-1]

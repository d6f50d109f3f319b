"""`bourse login`, `logout`, `tenants` and `config`: which server is called, and with whose token."""

from __future__ import annotations

import getpass
from dataclasses import replace

from bourse_client.command import exits
from bourse_client.command.screen import plain
from bourse_client.command.session import Session
from bourse_client.command.settings import BrokenSettings, Settings, settings_file, settings_read, settings_write
from bourse_client.shapes import Me
from bourse_client.transport import parts_of

USUAL = "http://127.0.0.1:8000"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def login(session: Session) -> int:
    """Try the token, and keep it if it works. It is never on the command line, where others could read it."""
    words, screen = session.words, session.screen
    file = settings_file(session.environment)
    url = words.url or session.environment.get("BOURSE_URL", "") or _address(session)
    parts = parts_of(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        screen.note(f"Beware: to {url} the token travels for everybody on the way to read.")
    token = _token(session)
    if not token:
        raise exits.UsageError("No token was given. Make one on the page Tokens.")
    me = session.client_of(url, token).me()
    tenant = _tenant(me, words.tenant or session.environment.get("BOURSE_TENANT", ""))
    settings = _settings_of_before(session)
    pool = settings.pool if settings.url == url.rstrip("/") else ""
    settings_write(file, Settings(url.rstrip("/"), token, tenant, pool))
    if screen.as_json:
        screen.document({"url": url.rstrip("/"), "tenant": tenant, "email": me["email"], "file": str(file)})
    else:
        person = plain(f"{me['name']} ({me['email']})")
        screen.line(f"Logged in as {person}" + (f" for {tenant}." if tenant else "."))
        screen.line(f"Kept in {file}, which only you can read.")
    return exits.DONE


def _address(session: Session) -> str:
    """Ask the person at the terminal for the address, and offer the last one again."""
    url = _settings_of_before(session).url or USUAL
    if not session.stdin.isatty():
        raise exits.UsageError("Say where: --url https://bourse.example, or BOURSE_URL.")
    print(f"Address [{url}]: ", end="", file=session.screen.err, flush=True)
    return session.stdin.readline().strip() or url


def _settings_of_before(session: Session) -> Settings:
    """Return what is kept; nothing where that is broken, since it is written anew."""
    try:
        return settings_read(settings_file(session.environment), warn=session.screen.note)
    except BrokenSettings:
        return Settings()


def _token(session: Session) -> str:
    if token := session.environment.get("BOURSE_TOKEN", "").strip():
        return token
    if session.words.token_stdin or not session.stdin.isatty():
        return session.stdin.readline().strip()
    try:
        return getpass.getpass("Token (not shown): ").strip()
    except EOFError:  # Control-D
        return ""


def _tenant(me: Me, wanted: str) -> str:
    slugs = [tenant["slug"] for tenant in me["tenants"]]
    if wanted and wanted not in slugs and not me["staff_roles"]:
        raise exits.UsageError(f"This token does not reach {wanted}. It reaches: {', '.join(slugs) or 'no tenant'}.")
    return wanted or (slugs[0] if len(slugs) == 1 else "")


def config_show(session: Session) -> int:
    settings = settings_read(settings_file(session.environment), warn=session.screen.note)
    values = {"url": settings.url, "tenant": settings.tenant, "pool": settings.pool}
    if session.screen.as_json:
        session.screen.document(values)
    else:
        session.screen.table(("setting", "value"), [(name, value or "-") for name, value in values.items()])
    return exits.DONE


def config_set(session: Session) -> int:
    """Set a tenant or pool. A name that the server does not know is refused, so that no later command fails for it."""
    name, value = session.words.name, session.words.value
    file = settings_file(session.environment)
    address, home = session.settings.url, settings_read(file, warn=lambda _: None).url
    if home and address != home:
        raise exits.UsageError(f"What is set is for {home}, where you are logged in, and not for {address}.")
    if name == "pool":
        slugs = [str(pool["slug"]) for pool in session.client.pools()]
        if value not in slugs:
            raise exits.UsageError(f"There is no pool {value}. There is: {', '.join(slugs) or 'none yet'}.")
    else:
        value = _tenant(session.client.me(), value)
    return _config_change(session, name, value)


def config_unset(session: Session) -> int:
    return _config_change(session, session.words.name, "")


def _config_change(session: Session, name: str, value: str) -> int:
    file = settings_file(session.environment)
    settings = settings_read(file, warn=session.screen.note)
    if not settings.url:
        raise exits.UsageError("Nothing is kept yet: run `bourse login` first, or set BOURSE_POOL and BOURSE_TENANT.")
    settings_write(file, replace(settings, **{name: value}))
    session.screen.note(f"{name} is {value}." if value else f"{name} is not set any more.")
    return exits.DONE


def logout(session: Session) -> int:
    file = settings_file(session.environment)
    try:
        has_file = file.exists()
        file.unlink(missing_ok=True)
    except OSError as error:
        raise exits.UsageError(f"{file}: {error.strerror}.") from error
    session.screen.note(
        f"{file} is gone. The token still works until it is revoked." if has_file else "Nothing was kept."
    )
    return exits.DONE


def tenants(session: Session) -> int:
    screen, me = session.screen, session.client.me()
    if screen.as_json:
        screen.document(me["tenants"])
        return exits.DONE
    staff = f", {' and '.join(me['staff_roles'])} of the platform" if me["staff_roles"] else ""
    screen.note(f"{me['name']} ({me['email']}){staff}")
    if me["tenants"]:
        screen.table(
            ("tenant", "name", "role"),
            [(tenant_row["slug"], tenant_row["name"], tenant_row["role"]) for tenant_row in me["tenants"]],
        )
    return exits.DONE

"""A small OpenID Connect provider on loopback: enough for one person to log in with the code flow and PKCE."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.patience import PATIENCE

CLIENT_ID, CLIENT_SECRET = "bourse", "a secret between the two"


class Provider(ThreadingHTTPServer):
    """`person` holds the claims of whoever is logged in at the provider's side."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.person: dict[str, object] = {}
        self.codes: dict[str, tuple[str, str]] = {}  # code -> (challenge, redirect address)
        self.tokens: set[str] = set()

    def authorize(self, query: dict[str, str]) -> str:
        """What the provider's own log-in page does once the person has agreed: send the browser back."""
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert {"openid", "email"} <= set(query["scope"].split())
        code = secrets.token_urlsafe()
        self.codes[code] = (query["code_challenge"], query["redirect_uri"])
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, form: dict[str, str]) -> dict[str, str] | None:
        challenge, address = self.codes.pop(form["code"], ("", ""))
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        proved = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        is_client = (form.get("client_id"), form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        if not (proved and is_client and form["redirect_uri"] == address):
            return None
        token = secrets.token_urlsafe()
        self.tokens.add(token)
        return {"access_token": token, "token_type": "Bearer"}


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/.well-known/openid-configuration":
            self._json(self._discovery())
        elif parts.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.send_response(302)
            self.send_header("Location", self.server.authorize(query))
            self.end_headers()
        elif parts.path == "/userinfo" and self._bearer() in self.server.tokens:
            self._json(self.server.person)
        else:
            self._json({"error": "refused"}, status=401)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        tokens = self.server.exchange({name: values[0] for name, values in parse_qs(body).items()})
        self._json(tokens or {"error": "invalid_grant"}, status=200 if tokens else 400)

    def _discovery(self) -> dict[str, object]:
        url = self.server.url
        return {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "userinfo_endpoint": f"{url}/userinfo",
            "jwks_uri": f"{url}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }

    def _bearer(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def _json(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """The test's output stays quiet."""


@contextmanager
def running_provider() -> Iterator[Provider]:
    with Provider() as provider:
        thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield provider
        finally:
            provider.shutdown()
            thread.join(timeout=PATIENCE)

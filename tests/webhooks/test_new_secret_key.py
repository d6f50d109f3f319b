"""SECRET_KEY is changed: receivers and auditors notice nothing, and what an older version made of it stays good."""

from __future__ import annotations

import io
import json
import secrets
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django.utils.crypto import salted_hmac
from pytest_django.fixtures import Settings

from marketplace.upkeep import backup
from marketplace.upkeep.doctor import BROKEN, WARNING, WELL, examine
from scheduling.app.tasks import secrets_tick
from scheduling.audit.bundle import check, signing_keys
from scheduling.audit.bundle.signature import public_key, seed_of
from scheduling.audit.verification.settings import settings_verify
from scheduling.catalogue.secrets import secret_set, secrets_opened
from scheduling.models import SigningKey, Webhook, WebhookDelivery
from scheduling.programs.stored import program_of_row
from scheduling.webhooks.changes import webhook_create
from scheduling.webhooks.chats import chat_set
from scheduling.webhooks.receivers import LEASE
from scheduling.webhooks.signing import SIGNATURE_HEADER, signature_of_before, standard_signature
from tenants.access import Access
from tenants.models import AuditEntry
from tenants.roles import AUDITOR
from tenants.scoping import scope
from tests.catalogue.builders import BY, register
from tests.scheduling.builders import make_pool
from tests.tenants.builders import NOW, client_of, done, make_staff
from tests.webhooks.hooks import URL, Receiver, again, go, make, owner, rows, tell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]
OLD, NEW = secrets.token_urlsafe(50), secrets.token_urlsafe(50)


@pytest.fixture(autouse=True)
def _old_key(settings: Settings) -> None:
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = OLD, []


def made_by_an_older_version(webhook: Webhook) -> str:
    """The secret that its receiver has."""
    webhook.salt = "a" * 64
    with scope(webhook.tenant):
        Webhook.objects.filter(pk=webhook.pk).update(salt=webhook.salt, secret="", form="before")
    return "whsec_" + salted_hmac("bourse.webhook.secret", webhook.salt, secret=OLD, algorithm="sha256").hexdigest()


def told_and_signed(by: Access, noted: dict[int, str]) -> None:
    """An event reaches each receiver, and the secret that it noted proves it."""
    tell(by.tenant, "job_started")
    receiver = Receiver()
    assert go(receiver) == len(noted)
    for letter in receiver.letters:
        stamp, number = int(NOW.timestamp()), str(letter.delivery_id)
        secret = noted[letter.webhook_id]
        if SIGNATURE_HEADER in letter.headers:
            proof = standard_signature(secret, number, stamp, letter.body)
            assert letter.headers[SIGNATURE_HEADER] == proof
        else:
            proof = signature_of_before(secret, stamp, letter.body)
            assert letter.headers["Bourse-Webhook-Signature"] == proof


def bundle(folder: Path, name: str) -> Path:
    out, at = folder / name, timezone.now()
    call_command("audit_bundle", pool="main", start=at, end=at + timedelta(days=1), out=out, stdout=io.StringIO())
    return out


def output_of(*words: str, **options: object) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def doctor() -> list[str]:
    return [finding.state for finding in examine(timezone.now()) if finding.name == "secrets"]


def test_receivers_and_auditors_notice_nothing_of_a_new_key(settings: Settings, tmp_path: Path) -> None:
    by = owner()
    make_pool()
    derived = make(by)
    with scope(by.tenant):
        issued = done(webhook_create(url=URL, kinds=[], by=by, at=NOW))
    done(secret_set(name="hub", value="hf_1", tenants=None, by=BY, at=NOW, reason="for models"))
    program = program_of_row(register(BY, secrets={"TOKEN": "hub"}))
    done(chat_set(person=by.user, url=URL, form="text", at=NOW))
    noted = {derived.pk: made_by_an_older_version(derived), issued.webhook.pk: issued.secret}
    before = bundle(tmp_path, "before.zip")
    key = public_key(seed_of(OLD)).hex()  # noted by an auditor under the older version
    assert check.check(before, key) == []
    client = client_of(by.user)

    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [OLD]
    assert client.get("/").status_code == 302  # still logged in: on to the tenant's pages
    assert "/login" not in client.get("/")["Location"]
    assert doctor() == [WARNING]
    told_and_signed(by, noted)
    assert output_of("keys", carry=True).splitlines()[:4] == [
        "Webhooks: 2 carried over, 0 were there already, 0 cannot be read.",
        "Signing keys: 1 carried over, 0 were there already, 0 cannot be read.",
        "Program secrets: 1 carried over, 0 were there already, 0 cannot be read.",
        "Chat addresses: 1 carried over, 0 were there already, 0 cannot be read.",
    ]
    assert output_of("keys", carry=True).startswith("Webhooks: 0 carried over, 2 were there already")
    assert AuditEntry.objects.filter(action="secrets_carry").count() == 1

    settings.SECRET_KEY_FALLBACKS = []
    assert doctor() == [WELL]
    told_and_signed(by, noted)
    assert secrets_opened(program, by.tenant.slug) == (("TOKEN", "hf_1"),)
    after = bundle(tmp_path, "after.zip")
    assert check.check(before, key) == check.check(after, key) == []

    output_of("keys", new_bundle_key=True, reason="The old one lay on a lost disk.")
    fresh = signing_keys()[0].public_key
    assert (check.check(before, key), check.check(bundle(tmp_path, "fresh.zip"), fresh)) == ([], [])
    assert check.check(tmp_path / "fresh.zip", key) != []
    page = client_of(make_staff(AUDITOR).user).get("/fairness/audits/").content.decode()
    assert key in page
    assert fresh in page
    assert [finding for finding in settings_verify([]) if "signing key" in str(finding)] == []


def test_lost_key_is_named_and_nothing_that_waits_is_lost(settings: Settings) -> None:
    by = owner()
    webhook = make(by)
    tell(by.tenant, "job_started")
    settings.SECRET_KEY = NEW
    receiver = Receiver()
    assert go(receiver) == 0
    assert doctor() == [BROKEN]
    with pytest.raises(CommandError, match="Put the key under which they were stored"):
        output_of("keys", carry=True)
    settings.SECRET_KEY_FALLBACKS = [OLD]
    assert go(receiver, NOW + LEASE + timedelta(seconds=1)) == 1
    assert [row.state for row in rows(WebhookDelivery)] == ["delivered"]
    assert again(webhook).failures == 0


def test_lost_key_of_bundles_is_replaced_and_then_nothing_is_broken(settings: Settings, tmp_path: Path) -> None:
    make_pool()
    bundle(tmp_path, "before.zip")
    settings.SECRET_KEY = NEW
    with pytest.raises(CommandError, match=r"SECRET_KEY_FALLBACKS; where it is lost, `manage.py keys --new-bundle-key"):
        bundle(tmp_path, "without.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["before.zip"]
    assert doctor() == [BROKEN]
    output_of("keys", new_bundle_key=True, reason="The old one is lost.")
    bundle(tmp_path, "after.zip")
    assert doctor() == [WELL]
    assert "Signing keys: 0 carried over, 1 were there already, 0 cannot be read." in output_of("keys", carry=True)


def test_worker_carries_by_itself_and_the_first_key_is_told_of_once(settings: Settings) -> None:
    webhook = make(owner())
    made_by_an_older_version(webhook)
    secrets_tick()
    secrets_tick()
    assert again(webhook).secret != ""
    assert [key.public_key for key in signing_keys()] == [public_key(seed_of(OLD)).hex()]
    assert AuditEntry.objects.filter(action="signing_key_make").count() == 1


def test_exchanged_private_half_signs_nothing(tmp_path: Path) -> None:
    make_pool()
    assert output_of("keys").strip() == "Bundles: none was signed yet; the first one makes a key."
    bundle(tmp_path, "first.zip")
    output_of("keys", new_bundle_key=True, reason="a test")
    retired, current = SigningKey.objects.order_by("made_at")
    current.secret = retired.secret
    current.save(update_fields=["secret"])
    with pytest.raises(CommandError, match="was exchanged"):
        bundle(tmp_path, "second.zip")


def test_backup_of_before_the_change_can_be_restored_with_the_older_key_at_hand(
    settings: Settings, tmp_path: Path
) -> None:
    manifest = {"format": backup.FORMAT, "key": backup._fingerprint(OLD), "files": {}}
    (tmp_path / backup.MANIFEST).write_text(json.dumps(manifest))
    settings.SECRET_KEY = NEW
    with pytest.raises(backup.BackupFailed, match="is not the one of this backup"):
        backup.backup_restore(tmp_path)
    settings.SECRET_KEY_FALLBACKS = [OLD]
    with pytest.raises(backup.BackupFailed, match="The database is not empty"):
        backup.backup_restore(tmp_path)

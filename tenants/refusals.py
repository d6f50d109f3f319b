"""Codes of refusals: when each is given, whether time alone may change the answer, and what would help.

A service refuses with a code and a sentence of its own (`tenants.access.Refused`), which names the thing; the code's
meaning is given once, here. It never changes, since programs read it. docs/guide/reasons.md lists all of them.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """The code of a refusal. `final` means that waiting changes nothing; otherwise the same request may be granted
    later. `when` is a clause. `help` is a sentence, empty where nothing helps. `numbers` are the names of the figures
    that come with it."""

    final: bool
    when: str
    help: str
    numbers: tuple[str, ...]

    def __new__(cls, code: str, final: bool, when: str, help: str, *numbers: str) -> RefusalCode:
        member = str.__new__(cls, code)
        member._value_, member.final, member.when, member.help, member.numbers = code, final, when, help, numbers
        return member


FINAL, LATER = True, False
AGAIN = "Send it again after `Retry-After` seconds; what changes something, with the same key."


class InterfaceRefusal(RefusalCode):
    """Refusals of the interface for programs, before a service is called, or where none could answer."""

    BODY_TOO_LARGE = (
        "body_too_large", FINAL,
        "the body is larger than 1 MiB (21 MiB where an archive comes as a file), or has more than 20,000 values "
        "(50,000 for jobs in bulk)",
        "Send less at once.",
    )  # fmt: skip
    BROKER_UNAVAILABLE = "broker_unavailable", LATER, "the broker does not answer, or has no room", AGAIN
    BUSY = "busy", LATER, "others were changing the same", AGAIN
    CSRF_FAILED = (
        "csrf_failed", FINAL, "a request of a session lacks its token",
        "Send the header X-CSRFToken, or a bearer token in place of the session.",
    )  # fmt: skip
    DATABASE_UNAVAILABLE = (
        "database_unavailable", LATER, "the database does not answer, or has just begun again", AGAIN,
    )  # fmt: skip
    DEADLINE_PASSED = "deadline_passed", LATER, "it took longer than a request may", AGAIN
    HEADERS_TOO_LARGE = (
        "headers_too_large", FINAL, "the address and the headers are too long",
        "Send fewer parameters and cookies.",
    )  # fmt: skip
    IDEMPOTENCY_IN_PROGRESS = (
        "idempotency_in_progress", LATER, "a request with this key is still running",
        "Send it again in a moment, with the same key.",
    )  # fmt: skip
    IDEMPOTENCY_MISMATCH = (
        "idempotency_mismatch", FINAL, "the key was used for another request",
        "Take a new key for a new request.",
    )  # fmt: skip
    INTERNAL_ERROR = (
        "internal_error", LATER, "something broke here",
        "Send it again with the same key, or look first; tell the operator if it stays.",
    )  # fmt: skip
    INVALID_CURSOR = "invalid_cursor", FINAL, "the cursor is none of this list in this order", "Begin without it."
    INVALID_KEY = (
        "invalid_key", FINAL, "the key is empty, too long, or not printable",
        "Use 1 to 200 printable characters.",
    )  # fmt: skip
    INVALID_REQUEST = (
        "invalid_request", FINAL, "fields or parameters are missing or wrong",
        "`errors` names each of them.",
    )  # fmt: skip
    MALFORMED_BODY = "malformed_body", FINAL, "the body is not JSON", "Send one JSON object in UTF-8."
    MALFORMED_REQUEST = "malformed_request", FINAL, "the request could not be read", "Send it as the interface says."
    METHOD_NOT_ALLOWED = (
        "method_not_allowed", FINAL, "the address does not take this method",
        "`Allow` names those it takes.",
    )  # fmt: skip
    NOT_ACCEPTABLE = "not_acceptable", FINAL, "there is no such form of this answer", "Accept application/json."
    NOT_AUTHENTICATED = (
        "not_authenticated", FINAL, "nobody is logged in, and there is no token",
        "Log in, or send a token.",
    )  # fmt: skip
    NOT_FOUND = "not_found", FINAL, "there is no such thing, or it is somebody else's", "Check the address."
    NOT_READY = (
        "not_ready", LATER, "the database or the broker does not answer",
        "Ask again after `Retry-After` seconds.", "database", "broker", "worker",
    )  # fmt: skip
    SCOPE_MISSING = (
        "scope_missing", FINAL, "the token lacks a scope", "Make a token with this scope on the page Tokens.", "scope",
    )  # fmt: skip
    STORAGE_FULL = "storage_full", LATER, "the disk of the database is full", AGAIN
    TOKEN_EXPIRED = "token_expired", FINAL, "the token has expired", "Make a new one on the page Tokens."
    TOKEN_REVOKED = "token_revoked", FINAL, "the token was revoked", "Make a new one on the page Tokens."
    TOKEN_UNKNOWN = "token_unknown", FINAL, "there is no such token", "Check that it is copied whole."
    TOO_MANY_AT_ONCE = (
        "too_many_at_once", LATER, "the tenant has as much under way as it may",
        "Wait the seconds that `Retry-After` says, and send less at once.",
    )  # fmt: skip
    TOO_MANY_CALLS = (
        "too_many_calls", LATER, "the calls of this minute are used up",
        "Wait the seconds that `Retry-After` says.",
    )  # fmt: skip
    TOO_MANY_STREAMS = "too_many_streams", LATER, "too many streams are open", "Close one first."
    UNSUPPORTED_MEDIA_TYPE = (
        "unsupported_media_type", FINAL, "the body is not application/json in UTF-8",
        "Send it as application/json.",
    )  # fmt: skip


class TenantRefusal(RefusalCode):
    """Refusals about people, tenants, roles, invitations and tokens."""

    NOT_ALLOWED = (
        "not_allowed", FINAL, "the role does not allow this",
        "Ask an owner of the tenant for a role that does.",
    )  # fmt: skip
    REASON_MISSING = "reason_missing", FINAL, "an operator's change names no reason", "Say why."
    REASON_TOO_LONG = "reason_too_long", FINAL, "the reason is too long", "Say it in fewer words."
    ADDRESS_TAKEN = "address_taken", FINAL, "there is an account for this address", "Give that account the role."
    ALREADY_GRANTED = "already_granted", FINAL, "the person has this role", ""
    ALREADY_MEMBER = "already_member", FINAL, "the person is a member of this tenant", "Change the role instead."
    ALREADY_ASKED = (
        "already_asked", FINAL, "the person's request to join this tenant waits for an answer", "Wait, or withdraw it.",
    )  # fmt: skip
    ASKED_LATELY = (
        "asked_lately", LATER, "the tenant declined a request of this person within a week",
        "Ask again a week after it was declined.",
    )  # fmt: skip
    BEYOND_TOKEN = (
        "beyond_token", FINAL, "a token would make one that may more, or lives longer",
        "Make it on the page Tokens, or with fewer scopes.",
    )  # fmt: skip
    CLAIM_MAPPED = (
        "claim_mapped", FINAL, "this value of a claim has a role in this tenant", "Change the role of that mapping.",
    )  # fmt: skip
    INVALID_CLAIM = "invalid_claim", FINAL, "no claim has this name", "Write names with dots between them."
    INVALID_CLAIM_VALUE = (
        "invalid_claim_value", FINAL, "a claim cannot be compared with this value", "Write it exactly, or with one *.",
    )  # fmt: skip
    TOO_MANY_MAPPINGS = "too_many_mappings", FINAL, "there are too many mappings of claims", "Use a * in values."
    UNKNOWN_MAPPING = "unknown_mapping", FINAL, "there is no such mapping of a claim", "Look at the page again."
    INVALID_EMAIL = "invalid_email", FINAL, "this is not an e-mail address", "Check the address."
    INVALID_EXPIRY = "invalid_expiry", FINAL, "a token cannot expire then", "Choose an end within a year."
    INACTIVE_PERSON = "inactive_person", FINAL, "the account with this address is closed", "Name somebody else."
    INVALID_TENANT = "invalid_tenant", FINAL, "a tenant cannot have this name or short name", "Choose others."
    INVALID_PERSON_NAME = (
        "invalid_person_name",
        FINAL,
        "nothing can be seen of this name",
        "Choose one that can be seen.",
    )
    INVALID_TOKEN_NAME = (
        "invalid_token_name", FINAL, "a token cannot have this name",
        "Use 1 to 80 printable characters.",
    )  # fmt: skip
    INVITATION_EXPIRED = "invitation_expired", FINAL, "the invitation has expired", "Ask for a new one."
    INVITATION_REVOKED = "invitation_revoked", FINAL, "the invitation was withdrawn", "Ask for a new one."
    INVITATION_USED = "invitation_used", FINAL, "the invitation was accepted before", "Log in."
    JOIN_REQUEST_ENDED = (
        "join_request_ended", FINAL, "the request to join was accepted, declined or withdrawn before",
        "Look at the page Members again.",
    )  # fmt: skip
    LAST_OPERATOR = "last_operator", FINAL, "the market would have no operator", "Name another operator first."
    LAST_OWNER = "last_owner", FINAL, "the tenant would have no owner", "Make somebody else an owner first."
    NO_INVITER = "no_inviter", FINAL, "nobody invites", "Invite as a person, not as a command."
    NOT_GRANTED = "not_granted", FINAL, "the person does not have this role", ""
    NOT_MEMBER = "not_member", FINAL, "the person is not a member of this tenant", "Invite the person first."
    OTHER_ADDRESS = (
        "other_address", FINAL, "the invitation is for another address",
        "Log in with that address, and confirm it first.",
    )  # fmt: skip
    TOO_MANY_REQUESTS = (
        "too_many_requests", LATER, "the person has asked too many tenants", "Withdraw a request, or wait some days.",
    )  # fmt: skip
    TOO_MANY_TOKENS = "too_many_tokens", FINAL, "too many of the person's tokens work", "Revoke one first."
    UNKNOWN_INVITATION = "unknown_invitation", FINAL, "there is no such invitation", "Check that the link is complete."
    UNKNOWN_JOIN_REQUEST = (
        "unknown_join_request", FINAL, "there is no such request to join", "Look at the page again.",
    )  # fmt: skip
    UNKNOWN_PERSON = "unknown_person", FINAL, "there is no account for this address", "Make one, or check the address."
    UNKNOWN_ROLE = "unknown_role", FINAL, "there is no such role", "The page Members names the roles."
    UNKNOWN_SCOPE = "unknown_scope", FINAL, "there is no such scope, or none is named", "The sentence names the scopes."
    UNKNOWN_TOKEN = "unknown_token", FINAL, "there is no such token, or it is somebody else's", "Check the number."

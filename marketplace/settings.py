"""All settings, by subject. Values that differ between machines come from the environment."""

import secrets
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from marketplace import addresses, env, places
from marketplace.embedded.programs import SHARED
from marketplace.embedded.state import state_for
from marketplace.version import VERSION
from scheduling.core.currency import DIGITS_IN_WORDS
from tenants.common.patience import Patience

BASE_DIR = places.MODULES
VAR_DIR = places.var_folder()
# What gangs write, and what they run with, in folders that root's accounts for them can enter: beside the database's
# own files.
RUNS_DIR = state_for(VAR_DIR).folder / "runs"
SHARED_DIR = SHARED
ENGINES_FILE = env.text("ENGINES_FILE", "")  # defines the engines beside the local one, by name
LOCAL_GPUS = env.text("LOCAL_GPUS", "")  # those of this machine that jobs may use: `all`, or numbers and UUIDs

# --- Which machine is this? ---------------------------------------------------------------------------------------

# The variable DEBUG means a machine for development and the demonstration, where passwords may be known.
DEVELOPMENT = env.flag("DEBUG", False)
# Django's own DEBUG does more: it shows pages for developers instead of ours, and keeps every query in memory.
DEBUG = DEVELOPMENT and env.flag("DEBUG_PAGES", False)
# Days of the demonstration's past, which the first start of `manage.py up` makes. With 0 everything begins now.
DEMO_DAYS = env.integer("DEMO_DAYS", 30, least=0, most=60)


def _development_key() -> str:
    """Return one random key per checkout, so that log-ins survive a restart without anybody choosing a key."""
    path = VAR_DIR / "secret_key"
    VAR_DIR.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="ascii") as file:
            path.chmod(0o600)
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    return path.read_text(encoding="ascii")


SECRET_KEY = env.secret("SECRET_KEY", _development_key() if DEVELOPMENT else env.REQUIRED, least=50)
# The keys before it, newest first: what they signed or encrypted is still valid. See "Changing SECRET_KEY".
SECRET_KEY_FALLBACKS = env.secrets("SECRET_KEY_FALLBACKS", [], least=50)
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", [])
DATABASE_URL = env.url(
    "DATABASE_URL",
    "none://" if DEVELOPMENT else env.REQUIRED,
    schemes=addresses.DATABASE_SCHEMES,
    flaw=addresses.database_flaw,
)
# The role that owns the tables, at the same database, for migrations. The product serves without it.
DATABASE_OWNER_URL = env.url("DATABASE_OWNER_URL", "", schemes=addresses.DATABASE_SCHEMES, flaw=addresses.database_flaw)
REDIS_URL = env.url("REDIS_URL", "unix:///nowhere" if DEVELOPMENT else env.REQUIRED, schemes=addresses.REDIS_SCHEMES)

# --- Apps ---------------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "csp",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "tenants",
    "tenants.ledger",
    "scheduling",
    "marketplace",
]

MIDDLEWARE = [
    "marketplace.request_ids.RequestIdMiddleware",
    "marketplace.web.requests.MeasuringMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "marketplace.web.compression.CompressionMiddleware",
    "marketplace.web.static.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "marketplace.web.unavailable.UnavailableMiddleware",
    "marketplace.web.forms.readable_forms",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "tenants.requests.middleware.private_answers",
    "tenants.requests.middleware.known_device",
    "tenants.requests.middleware.reader_zone",
    "tenants.requests.middleware.tenant_scope",
    "tenants.requests.middleware.request_deadline",
]

ROOT_URLCONF = "marketplace.urls"
ASGI_APPLICATION = "marketplace.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [places.FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "tenants.requests.context.shell",
                "marketplace.version.version_context",
                "scheduling.market.pages.context.frame",
                "scheduling.notices.pages.context.bell",
            ],
            "libraries": {"demo": "scheduling.demo.tags"},
        },
    },
]

# --- PostgreSQL and Redis -----------------------------------------------------------------------------------------

DATABASES = {"default": addresses.database(DATABASE_URL)}
DATABASE_ROLE = addresses.role(DATABASES["default"])
DATABASE_OWNER = addresses.database(DATABASE_OWNER_URL) if DATABASE_OWNER_URL else None
if DATABASE_OWNER and DATABASES["default"].get("NAME") not in (None, DATABASE_OWNER.get("NAME")):
    raise env.BadEnvironment("DATABASE_OWNER_URL: expected another role at the same database as DATABASE_URL.")
if env.flag("DATABASE_POOL", False):
    DATABASES["default"]["ENGINE"] = "marketplace.pooled"
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 2,
        "max_size": 20,
        "timeout": 10,
        "reconnect_timeout": 2,  # for one connection; the pool then tries another one for those who wait
    }


# How long a statement may take and wait for a lock, by the kind of process; each process sets its kind (`process_is`).
# Commands of the operator, such as migrations and verifications, have no limit.
def _patience(kind: str, statement: int, lock: int, idle: int = 0) -> Patience:
    return Patience(
        env.integer(f"{kind}_STATEMENT_SECONDS", statement, least=0, most=86_400),
        env.integer(f"{kind}_LOCK_SECONDS", lock, least=0, most=86_400),
        idle,
    )


REQUEST_SECONDS = env.integer("REQUEST_SECONDS", 30, least=1, most=3_600)
# Requests at which a web process works: in all, and of a tenant that is alone. Others wait for their turn.
WEB_AT_ONCE = env.integer("WEB_AT_ONCE", 16, least=1, most=256)
WEB_AT_ONCE_OF_ONE = env.integer("WEB_AT_ONCE_OF_ONE", 2, least=1, most=256)
PATIENCE = {
    "web": _patience("WEB", 20, 10, idle=REQUEST_SECONDS),
    "worker": _patience("WORKER", 600, 60),
    "beat": _patience("BEAT", 30, 10),
    "engine": _patience("ENGINE", 60, 30),
    "command": _patience("COMMAND", 0, 0),
}
DATABASE_OPTIONS = DATABASES["default"].setdefault("OPTIONS", {}).get("options", "")
if PATIENCE["command"].options:
    DATABASES["default"]["OPTIONS"]["options"] = f"{PATIENCE['command'].options} {DATABASE_OPTIONS}".strip()
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Limits of tries are counted in it, so every process must use the same one.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "bourse",
        # The longest wait for a Redis that is silent. The client's own has no end.
        "OPTIONS": {"socket_timeout": 5, "socket_connect_timeout": 5},
    }
}
CHANNEL_LAYERS = {
    "default": {
        # One subscription for each process and group. The other layer wakes every socket for every message.
        "BACKEND": "scheduling.feed.layer.NewsLayer",
        "CONFIG": {
            "hosts": [{"address": REDIS_URL, "socket_timeout": 30}],
            "prefix": f"bourse:channels:{addresses.redis_database(REDIS_URL)}",
        },
    }
}

CELERY_BROKER_URL = addresses.celery_broker(REDIS_URL)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_TIME_LIMIT = 600
CELERY_TIMEZONE = "UTC"

# --- People -------------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTH_USER_MODEL = "tenants.User"
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/"
TENANT_HOME = "tenant_market"  # the name of the page with which a tenant's pages begin
REFERENCE_PLACES = "scheduling.app.places.reader_places"  # fills the lines of the page about the interface
STAFF_HOME = "overview"  # the name of the first page of operators and auditors

ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_ADAPTER = "tenants.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "signup": "tenants.forms.InvitedSignupForm",
    "login": "tenants.forms.MemberLoginForm",
    "add_email": "tenants.forms.MemberAddressForm",
    "reset_password": "tenants.forms.ForgottenPasswordForm",
    "reset_password_from_key": "tenants.forms.NewPasswordByMailForm",
    "change_password": "tenants.forms.OtherPasswordForm",
    "set_password": "tenants.forms.FirstPasswordForm",
}
# An invitation's link does not prove the mailbox, since the inviter has seen it too.
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[Bourse] "
ACCOUNT_SESSION_REMEMBER = True
# tenants.log_in_limits counts passwords, codes and mails for new passwords, and distinguishes people from strangers.
ACCOUNT_RATE_LIMITS = {"login": "", "login_failed": "", "reset_password": ""}
ALLAUTH_TRUSTED_PROXY_COUNT = env.integer("TRUSTED_PROXY_COUNT", 0, least=0, most=10)
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = False
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_REAUTHENTICATION_REQUIRED = True
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_FORMS = {"authenticate": "tenants.forms.CodeForm", "reauthenticate": "tenants.forms.CodeAgainForm"}

SOCIALACCOUNT_ADAPTER = "tenants.adapters.SocialAccountAdapter"
# The operator chose the provider: a person with an address that it has verified logs in to the account with that
# address.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_PROVIDERS: dict[str, dict[str, object]] = {}


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


OIDC_SERVER_URL = env.url("OIDC_SERVER_URL", "", schemes=("https",) if not DEVELOPMENT else ("https", "http"))
if OIDC_SERVER_URL:
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "oidc",
                "name": env.text("OIDC_NAME", "Single sign-on"),
                "client_id": env.text("OIDC_CLIENT_ID"),
                "secret": env.secret("OIDC_CLIENT_SECRET"),
                "settings": {"server_url": OIDC_SERVER_URL},
            }
        ],
    }

EMAIL_BACKEND = f"django.core.mail.backends.{'console' if DEVELOPMENT else 'smtp'}.EmailBackend"
EMAIL_HOST = env.text("EMAIL_HOST", "localhost")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, least=1, most=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.secret("EMAIL_HOST_PASSWORD", "", least=0)
EMAIL_TIMEOUT = 10  # a page waits for it
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", False)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "bourse@localhost")
# The beginning of links in mails that no request causes.
_FIRST_HOST = (ALLOWED_HOSTS[0] if ALLOWED_HOSTS else "").lstrip("*.") or "localhost"
_OWN_ADDRESS = "http://127.0.0.1:8000" if DEVELOPMENT else f"https://{_FIRST_HOST}"
PUBLIC_URL = env.url("PUBLIC_URL", _OWN_ADDRESS, schemes=("https", "http")).rstrip("/")

# --- How many days things are kept (0: for good) -------------------------------------------------------------------

RETENTION_DELIVERIES_DAYS = env.integer("RETENTION_DELIVERIES_DAYS", 90, least=0, most=36_500)
RETENTION_NOTICES_READ_DAYS = env.integer("RETENTION_NOTICES_READ_DAYS", 90, least=0, most=36_500)
RETENTION_NOTICES_UNREAD_DAYS = env.integer("RETENTION_NOTICES_UNREAD_DAYS", 365, least=0, most=36_500)
RETENTION_REPORTS_DAYS = env.integer("RETENTION_REPORTS_DAYS", 365, least=0, most=36_500)
RETENTION_ARCHIVES_DAYS = env.integer("RETENTION_ARCHIVES_DAYS", 365, least=0, most=36_500)
RETENTION_RUN_FILES_DAYS = env.integer("RETENTION_RUN_FILES_DAYS", 0, least=0, most=36_500)

# --- Programs -----------------------------------------------------------------------------------------------------

# Limits of one token, or of one person with a session; and of one person with all of them.
API_CALLS_PER_MINUTE = env.integer("API_CALLS_PER_MINUTE", 1_200, least=1, most=10_000_000)
API_CALLS_PER_MINUTE_OF_PERSON = env.integer(
    "API_CALLS_PER_MINUTE_OF_PERSON", 2 * API_CALLS_PER_MINUTE, least=1, most=20_000_000
)
# Costly calls (quotes, questions about the past, verifications and bundles) of one tenant that may run at once in all
# web processes.
COSTLY_AT_ONCE = env.integer("COSTLY_AT_ONCE", 2, least=1, most=1_000)
# Set it only where webhooks must reach this machine or a private network, and plain http.
WEBHOOKS_ALLOW_PRIVATE = env.flag("WEBHOOKS_ALLOW_PRIVATE", False)
# None allows every port. A receiver on the developer's own machine rarely has 443.
WEBHOOKS_PORTS = env.integers("WEBHOOKS_PORTS", None if WEBHOOKS_ALLOW_PRIVATE else [443], least=1, most=65535)
REST_FRAMEWORK = {
    # The views of tenants.api.views check permissions, limits and forms themselves.
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.api.authentication.BearerAuthentication",
        "tenants.api.authentication.PersonAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["tenants.api.bodies.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Bourse",
    "DESCRIPTION": (
        "A marketplace for a shared machine-learning cluster.\n\n"
        f"Money is a decimal text of credits with {DIGITS_IN_WORDS} digits, times are UTC, slots count from 0. Errors "
        "are problem+json; `code` is for programs. Lists come in pages by cursor, or whole as CSV. Every POST takes an "
        "`Idempotency-Key`. Reads carry an ETag and heed `If-None-Match`. The headers `RateLimit-...` tell how many "
        "calls are left."
    ),
    "VERSION": VERSION,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "PREPROCESSING_HOOKS": ["tenants.api.schema.only_the_interface"],
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # the drift test reads the schema more strictly
    "SORT_OPERATIONS": True,
    # Enumerations that several answers share, under names that say to what they belong.
    "ENUM_NAME_OVERRIDES": {
        "AlonePlanEnum": "scheduling.models.AlonePlan",
        "AwardStateEnum": "scheduling.models.AwardState",
        "JobStateEnum": "scheduling.models.JobState",
        "PeriodEnum": "scheduling.models.Period",
        "PoolStateEnum": "scheduling.operator.api.pool_fields.STATES",
        "ReasonCodeEnum": "scheduling.jobs.api.fields.REASON_CODES",
        "ServerStateEnum": "scheduling.models.ServerState",
        "StudyStateEnum": "scheduling.models.StudyState",
        "WorkStateEnum": "scheduling.models.WorkState",
    },
}

# --- Language, time, files ----------------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str((BASE_DIR if places.CHECKOUT else VAR_DIR) / "staticfiles")))
API_SCHEMA = places.FILES / "docs" / "openapi.yaml"
STATICFILES_DIRS = [places.FILES / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEVELOPMENT
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = DEVELOPMENT
WHITENOISE_AUTOREFRESH = DEVELOPMENT

# --- Safety -------------------------------------------------------------------------------------------------------

SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", not DEVELOPMENT)
SECURE_HSTS_SECONDS = env.integer("SECURE_HSTS_SECONDS", 0 if DEVELOPMENT else 31_536_000, least=0, most=63_072_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE_HSTS_SECONDS > 0
# Load balancers use the first two without TLS, Prometheus on the same machine the third.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
if env.flag("BEHIND_TLS_PROXY", False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT
SESSION_COOKIE_NAME = "bourse_session"
CSRF_COOKIE_NAME = "bourse_csrf"
CSRF_COOKIE_HTTPONLY = False  # htmx reads it for its header
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        # The log-in form of single sign-on leads to the provider by a redirect, which browsers check too.
        "form-action": [SELF, *([_origin(OIDC_SERVER_URL)] if OIDC_SERVER_URL else [])],
        "frame-ancestors": [NONE],
    }
}

# --- Logs ---------------------------------------------------------------------------------------------------------

LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", among=("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FORMAT = env.choice("LOG_FORMAT", "text" if DEVELOPMENT else "json", among=("text", "json"))

from marketplace.logs import configuration  # noqa: E402

DEFAULT_EXCEPTION_REPORTER = "marketplace.web.reporter.BriefReporter"
LOGGING = configuration(level=LOG_LEVEL, form=LOG_FORMAT)

"""All settings, in the order a reader asks for them. Values that differ between machines come from the environment."""

import secrets
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from marketplace import addresses, env

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.text("BOURSE_VAR", str(BASE_DIR / "var")))

# --- Which machine is this? ---------------------------------------------------------------------------------------

DEBUG = env.flag("DEBUG", False)


def _development_key() -> str:
    """One random key per checkout, so that log-ins survive a restart without anybody choosing a key."""
    path = VAR_DIR / "secret_key"
    VAR_DIR.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="ascii") as file:
            path.chmod(0o600)
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    return path.read_text(encoding="ascii")


SECRET_KEY = env.secret("SECRET_KEY", _development_key() if DEBUG else env.REQUIRED, least=50)
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.words("CSRF_TRUSTED_ORIGINS", [])
DATABASE_URL = env.url("DATABASE_URL", "none://" if DEBUG else env.REQUIRED, schemes=addresses.DATABASE_SCHEMES)
REDIS_URL = env.url("REDIS_URL", "unix:///nowhere" if DEBUG else env.REQUIRED, schemes=addresses.REDIS_SCHEMES)

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
    "django_filters",
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
    "django.middleware.security.SecurityMiddleware",
    "marketplace.compression.CompressionMiddleware",
    "marketplace.static.StaticFilesMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "tenants.middleware.reader_zone",
    "tenants.middleware.tenant_scope",
]

ROOT_URLCONF = "marketplace.urls"
ASGI_APPLICATION = "marketplace.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "tenants.context.shell",
                "scheduling.context.frame",
            ],
        },
    },
]

# --- PostgreSQL and Redis -----------------------------------------------------------------------------------------

DATABASES = {"default": addresses.database(DATABASE_URL)}
if env.flag("DATABASE_POOL", False):
    DATABASES["default"]["ENGINE"] = "marketplace.pooled"
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 2, "max_size": 20, "timeout": 10}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Log-in rate limits count in the cache, so every process must see the same one.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "bourse",
    }
}
CHANNEL_LAYERS = {
    "default": {
        # One subscription for each process and group. The other layer wakes every socket for every message.
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
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

ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_ADAPTER = "tenants.adapters.AccountAdapter"
ACCOUNT_FORMS = {
    "signup": "tenants.forms.InvitedSignupForm",
    "login": "tenants.forms.MemberLoginForm",
    "add_email": "tenants.forms.MemberAddressForm",
    "reset_password": "tenants.forms.ForgottenPasswordForm",
}
# An invitation's link does not prove the mailbox: the inviter has seen it too.
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[Bourse] "
ACCOUNT_SESSION_REMEMBER = True
# `key` is the account, whatever the address; so guessing one password from many addresses is slowed too.
ACCOUNT_RATE_LIMITS = {"login": "30/m/ip", "login_failed": "20/10m/ip,5/5m/key"}
ALLAUTH_TRUSTED_PROXY_COUNT = env.integer("TRUSTED_PROXY_COUNT", 0, least=0, most=10)
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = False
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_REAUTHENTICATION_REQUIRED = True
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]

SOCIALACCOUNT_ADAPTER = "tenants.adapters.SocialAccountAdapter"
# The provider is the operator's own choice: an address that it has verified logs in to the account with it.
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_PROVIDERS: dict[str, dict[str, object]] = {}


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


OIDC_SERVER_URL = env.url("OIDC_SERVER_URL", "", schemes=("https",) if not DEBUG else ("https", "http"))
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

EMAIL_BACKEND = f"django.core.mail.backends.{'console' if DEBUG else 'smtp'}.EmailBackend"
EMAIL_HOST = env.text("EMAIL_HOST", "localhost")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, least=1, most=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER", "")
EMAIL_HOST_PASSWORD = env.secret("EMAIL_HOST_PASSWORD", "", least=0)
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS", False)
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "bourse@localhost")

# --- Programs -----------------------------------------------------------------------------------------------------

# Of one token, or of one person with a session.
API_CALLS_PER_MINUTE = env.integer("API_CALLS_PER_MINUTE", 1_200, least=1, most=10_000_000)
# Only where webhooks are to reach this machine or a private network, and plain http.
WEBHOOKS_ALLOW_PRIVATE = env.flag("WEBHOOKS_ALLOW_PRIVATE", False)
REST_FRAMEWORK = {
    # The views of tenants.api.views look at permissions, limits and forms themselves.
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
        "Money is a decimal text of credits with six digits, times are UTC, slots count from 0. Errors are "
        "problem+json; `code` is for programs. Lists come in pages by cursor, or whole as CSV. Every POST takes an "
        "`Idempotency-Key`. Reads carry an ETag and heed `If-None-Match`. The headers `RateLimit-...` tell how many "
        "calls are left."
    ),
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "PREPROCESSING_HOOKS": ["tenants.api.schema.only_the_interface"],
    "ENABLE_DJANGO_DEPLOY_CHECK": False,  # the drift test reads the schema more strictly
    "SORT_OPERATIONS": True,
    # Words that several answers share, under names that say whose they are.
    "ENUM_NAME_OVERRIDES": {
        "AwardStateEnum": "scheduling.models.AwardState",
        "JobStateEnum": "scheduling.models.JobState",
        "PeriodEnum": "scheduling.models.Period",
        "PoolStateEnum": "scheduling.api.pool_fields.STATES",
        "ServerStateEnum": "scheduling.models.ServerState",
        "WorkStateEnum": "scheduling.models.WorkState",
    },
}

# --- Language, time, files ----------------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(BASE_DIR / "staticfiles")))
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_AUTOREFRESH = DEBUG

# --- Safety -------------------------------------------------------------------------------------------------------

SECURE_SSL_REDIRECT = env.flag("SECURE_SSL_REDIRECT", not DEBUG)
SECURE_HSTS_SECONDS = env.integer("SECURE_HSTS_SECONDS", 0 if DEBUG else 31_536_000, least=0, most=63_072_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = SECURE_HSTS_SECONDS > 0
# Load balancers ask for these without TLS.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
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
LOG_FORMAT = env.choice("LOG_FORMAT", "text" if DEBUG else "json", among=("text", "json"))

from marketplace.logs import configuration  # noqa: E402

LOGGING = configuration(level=LOG_LEVEL, form=LOG_FORMAT)

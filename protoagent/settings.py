"""Django wiring only. How the agent behaves is configuration, see `protoagent.config`."""

from __future__ import annotations

from pathlib import Path

from csp.constants import NONE, SELF

from protoagent.config import paths
from protoagent.core import databases, env
from protoagent.security import hosts

BASE_DIR = Path(__file__).resolve().parent.parent
HOST = env.text("PROTOAGENT_HOST", "127.0.0.1")
PORT = env.number("PROTOAGENT_PORT", 7870, minimum=1, maximum=65535)
REDIS_URL = env.text("REDIS_URL")
AGENT_KEY = env.text("PROTOAGENT_AGENT", "main")

SECRET_KEY = paths.signing_key()
DEBUG = False
ALLOWED_HOSTS = hosts.allowed(HOST, env.text("PROTOAGENT_ALLOWED_HOSTS"))
TRUSTED_PROXIES = hosts.parse_proxies(env.text("PROTOAGENT_TRUSTED_PROXIES"))
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")  # FrontMiddleware drops forged ones

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "channels",
    "axes",
    "csp",
    "django_htmx",
    "django_q",
    "protoagent",
    "protoagent.accounts",
    "protoagent.journal",
    "protoagent.uploads",
    "tools_app",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "protoagent.web.front.FrontMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "protoagent.web.csrf.StrictCsrfMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "protoagent.web.auth.AccessMiddleware",
    "protoagent.web.timezones.TimezoneMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "protoagent.web.errors.ErrorMiddleware",
]

ROOT_URLCONF = "protoagent.urls"
ASGI_APPLICATION = "protoagent.asgi.application"
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
                "protoagent.console.shell.shell",
            ],
            "builtins": ["protoagent.templatetags.console"],
        },
    }
]

DATABASES = {"default": databases.parse(env.text("DATABASE_URL"), paths.home() / "db.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

if REDIS_URL:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}

Q_CLUSTER = {
    "name": "protoagent",
    "orm": "default",
    "workers": 2,
    "timeout": 24 * 3600,
    "retry": 25 * 3600,
    "max_attempts": 3,
    "ack_failures": True,
    "poll": 0.5,
    "guard_cycle": 1.0,
    "save_limit": 100,
    "scheduler": False,
    "catch_up": False,
    "label": "Queue",
}

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]
AXES_HANDLER = "protoagent.accounts.throttle.SignInThrottle"
AXES_LOCKOUT_CALLABLE = "protoagent.web.errors.locked_out"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # the handler has two wider limits as well
AXES_ENABLE_ADMIN = False  # accounts.admin shows the attempts without what was typed
AXES_VERBOSE = False
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
SESSION_ENGINE = "protoagent.accounts.sessions"
SESSION_COOKIE_AGE = 60 * 60 * 24 * 30
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "protoagent_session"
CSRF_COOKIE_NAME = "protoagent_csrf"
CSRF_COOKIE_HTTPONLY = False
CSRF_FAILURE_VIEW = "protoagent.web.errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CONTENT_TYPE_NOSNIFF = True
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = paths.home() / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "protoagent.server.assets.HashedStorage"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "protoagent.security.logs.MaskingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("LOG_LEVEL", "INFO").upper()},
    # One line for each request to a model: true, and of no use to anybody.
    "loggers": {"httpx": {"level": "WARNING"}, "httpcore": {"level": "WARNING"}},
}

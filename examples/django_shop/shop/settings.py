import os

import django

SECRET_KEY = os.environ.get("SECRET_KEY", "for development only")
DEBUG = True
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = ["penstock.integrations.django", "shop"]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ.get("PGDATABASE", "shop"),
        "USER": os.environ.get("PGUSER", ""),
        "PASSWORD": os.environ.get("PGPASSWORD", ""),
        "HOST": os.environ.get("PGHOST", ""),
        "PORT": os.environ.get("PGPORT", ""),
    }
}

PENSTOCK = {"QUEUES": {"default": 10, "mail": 2}}

if django.VERSION >= (6, 0):
    TASKS = {
        "default": {
            "BACKEND": "penstock.integrations.django.tasks.PenstockBackend",
            "QUEUES": ["default", "mail"],
        }
    }

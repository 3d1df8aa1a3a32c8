"""Django migrations that run Penstock's, so that `manage.py migrate` creates Penstock's schema."""

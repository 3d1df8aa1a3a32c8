"""One migration for each of Penstock's own, so that `manage.py migrate` brings its schema."""

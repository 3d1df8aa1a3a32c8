#!/bin/sh
# Penstock's database and the role that owns it, which is no superuser. The image of Postgres runs this
# once, when its volume is empty.
set -eu

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv password PENSTOCK_PASSWORD
CREATE ROLE penstock LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
CREATE DATABASE penstock OWNER penstock;
SQL

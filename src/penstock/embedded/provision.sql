-- Give the application its role and its database; all of it may be there already.
-- The role owns the database, so it can create schemas, but it is no superuser.
SELECT 'CREATE ROLE penstock LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock')
\gexec
-- `penstock migrate --rls` creates roles. Before version 16 who may do so may nearly everything.
SELECT 'ALTER ROLE penstock CREATEROLE'
WHERE current_setting('server_version_num')::integer >= 160000
  AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock' AND rolcreaterole)
\gexec
SELECT 'CREATE DATABASE penstock OWNER penstock'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'penstock')
\gexec
\connect penstock
-- Only a superuser may create this extension; not every Postgres has it.
SELECT 'CREATE EXTENSION vector'
FROM pg_available_extensions
WHERE name = 'vector' AND installed_version IS NULL
\gexec

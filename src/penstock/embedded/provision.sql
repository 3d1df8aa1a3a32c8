-- Create the application's role and database, unless they exist.
-- The role owns the database, so it can create schemas, but it is no superuser.
SELECT 'CREATE ROLE penstock LOGIN'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock')
\gexec
-- `penstock migrate --rls` creates roles. Before version 16 a role that may create roles may do
-- nearly everything, so it needs a superuser there.
SELECT 'ALTER ROLE penstock CREATEROLE'
WHERE current_setting('server_version_num')::integer >= 160000
  AND NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'penstock' AND rolcreaterole)
\gexec
SELECT 'CREATE DATABASE penstock OWNER penstock'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'penstock')
\gexec
\connect penstock
-- Only a superuser may create this extension, and not every Postgres has it.
SELECT 'CREATE EXTENSION vector'
FROM pg_available_extensions
WHERE name = 'vector' AND installed_version IS NULL
\gexec

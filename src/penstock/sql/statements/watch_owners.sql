-- name: watch_owners
-- How the newest jobs of some tenants ($1) and of some who asked for them ($2) stand. With $3, those of that tenant
-- alone. The newest are the last $4 that got an id: so the rows that are read are bounded for every role, under row
-- level security too. What runs is counted by its index, up to $4.
-- The limits cut nothing: they are there so that ids are looked up in their order, whatever the statistics say.
WITH since AS MATERIALIZED (
    SELECT coalesce(pg_sequence_last_value(s.oid), 0) - $4::integer AS id FROM pg_class AS s
     WHERE s.relkind = 'S' AND s.relname = 'job_id_seq'
       AND s.relnamespace = (SELECT n.oid FROM pg_namespace AS n WHERE n.nspname = $5::text)
), newest AS MATERIALIZED (
    (SELECT j.tenant, j.requested_by, j.state FROM :"schema".job AS j
      WHERE j.id > (SELECT i.id FROM since AS i) ORDER BY j.id DESC LIMIT $4::integer)
     UNION ALL
    (SELECT h.tenant, h.requested_by, h.state FROM :"schema".job_history AS h
      WHERE h.id > (SELECT i.id FROM since AS i) ORDER BY h.id DESC LIMIT $4::integer)
), running AS MATERIALIZED (
    SELECT j.tenant, j.requested_by, j.state FROM :"schema".job AS j
     WHERE j.state = 'running' ORDER BY j.lease LIMIT $4::integer
), seen AS MATERIALIZED (
    SELECT a.tenant, a.requested_by, a.state
      FROM (SELECT n.tenant, n.requested_by, n.state FROM newest AS n WHERE n.state <> 'running'
             UNION ALL
            SELECT r.tenant, r.requested_by, r.state FROM running AS r) AS a
     WHERE a.tenant = coalesce($3::text, a.tenant)
), watched AS (
    SELECT 'tenant' AS kind, t.name, s.state FROM unnest($1::text[]) AS t (name) LEFT JOIN seen AS s ON s.tenant = t.name
     UNION ALL
    SELECT 'user', u.name, s.state FROM unnest($2::text[]) AS u (name) LEFT JOIN seen AS s ON s.requested_by = u.name
)
SELECT w.kind, w.name, statement_timestamp() AS now,
       count(*) FILTER (WHERE w.state = 'scheduled') AS scheduled, count(*) FILTER (WHERE w.state = 'ready') AS ready,
       count(*) FILTER (WHERE w.state = 'running') AS running, count(*) FILTER (WHERE w.state = 'blocked') AS blocked,
       count(*) FILTER (WHERE w.state = 'completed') AS completed, count(*) FILTER (WHERE w.state = 'failed') AS failed,
       count(*) FILTER (WHERE w.state = 'cancelled') AS cancelled
  FROM watched AS w GROUP BY w.kind, w.name;

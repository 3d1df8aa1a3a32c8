-- name: set_retention
-- Keep the history of a state for so many days: of all jobs, of a queue, of a tenant or of both.
WITH changed AS (
    INSERT INTO :"schema".retention AS r (state, days, queue, tenant)
    VALUES ($1::text, $2::integer, $3::text, $4::text)
    ON CONFLICT (state, queue, tenant) DO UPDATE SET days = excluded.days
    RETURNING r.state, r.days, r.queue, r.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($5::text, session_user), 'set_retention', c.tenant, c.state,
           jsonb_build_object('queue', c.queue, 'days', c.days)
      FROM changed AS c
)
SELECT state, days, queue, tenant FROM changed;

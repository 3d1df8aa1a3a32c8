-- name: remove_retention
-- Take a rule away by which history is kept.
WITH removed AS (
    DELETE FROM :"schema".retention AS r
     WHERE r.state = $1::text AND r.queue = $2::text AND r.tenant = $3::text
    RETURNING r.state, r.days, r.queue, r.tenant
), noted AS (
    INSERT INTO :"schema".audit (actor, action, tenant, target, detail)
    SELECT coalesce($4::text, session_user), 'remove_retention', r.tenant, r.state,
           jsonb_build_object('queue', r.queue, 'days', r.days)
      FROM removed AS r
)
SELECT count(*) > 0 AS removed FROM removed;

-- name: set_plan
-- Change a plan: what is given ($2), while the rest stays.
WITH changed AS (
    INSERT INTO :"schema".plan AS p (name, priority, weight, late_after)
    SELECT $1::text, coalesce(n.priority, 0), coalesce(n.weight, 1), n.late_after
      FROM jsonb_populate_record(NULL:::"schema".plan, $2::text::jsonb) AS n
    ON CONFLICT (name) DO UPDATE
       SET (priority, weight, late_after) = (
               SELECT n.priority, n.weight, n.late_after FROM jsonb_populate_record(p, $2::text::jsonb) AS n),
           updated_at = statement_timestamp()
    RETURNING name, priority, weight, late_after
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($3::text, session_user), 'set_plan', c.name, $2::text::jsonb FROM changed AS c
)
SELECT name, priority, weight, late_after FROM changed;

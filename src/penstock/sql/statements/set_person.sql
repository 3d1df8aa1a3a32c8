-- Change a person's role ($2), password ($3), or whether they are let in ($4 true: no more); what is NULL stays.
-- Who has another password or is let in no more is logged out everywhere.
WITH changed AS (
    UPDATE :"schema".person AS p
       SET role = coalesce($2::text, p.role), password_hash = coalesce($3::text, p.password_hash),
           disabled_at = CASE $4::boolean WHEN true THEN coalesce(p.disabled_at, clock_timestamp()) WHEN false THEN NULL
                                          ELSE p.disabled_at END
     WHERE p.name = $1::text
    RETURNING p.name, p.role, p.created_at, p.created_by, p.disabled_at
), left_out AS (
    DELETE FROM :"schema".login AS l USING changed AS c
     WHERE l.person = c.name AND ($3::text IS NOT NULL OR $4::boolean)
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    SELECT coalesce($5::text, session_user), 'set_person', c.name,
           jsonb_strip_nulls(jsonb_build_object('role', $2::text, 'disabled', $4::boolean,
                                                'password', CASE WHEN $3::text IS NOT NULL THEN 'changed' END))
      FROM changed AS c
)
SELECT c.* FROM changed AS c;

-- Log a person out.
WITH closed AS (
    DELETE FROM :"schema".login AS l WHERE l.secret_hash = $1::bytea RETURNING l.person
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target) SELECT c.person, 'logout', c.person FROM closed AS c
)
SELECT c.person FROM closed AS c;

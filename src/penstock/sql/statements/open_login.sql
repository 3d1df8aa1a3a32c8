-- Log a person in, and forget the attempts before ($4): those of the address count one less.
WITH forgotten AS (
    DELETE FROM :"schema".login_failure AS f WHERE f.subject = ($4::bytea[])[1]
), forgiven AS (
    UPDATE :"schema".login_failure AS f SET failures = greatest(f.failures - 1, 0), until = statement_timestamp()
     WHERE f.subject = ($4::bytea[])[2]
), swept AS (
    DELETE FROM :"schema".login AS l
     WHERE l.secret_hash IN (SELECT o.secret_hash FROM :"schema".login AS o WHERE o.expires_at < clock_timestamp()
                              ORDER BY o.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
), noted AS (
    INSERT INTO :"schema".audit (actor, action, target, detail)
    VALUES ($2::text, 'login', $2::text, jsonb_build_object('address', $6::text))
)
INSERT INTO :"schema".login (secret_hash, person, csrf, expires_at)
VALUES ($1::bytea, $2::text, $3::text, clock_timestamp() + make_interval(secs => $5::double precision));

-- Note that somebody who is logged in was seen; at most once a minute.
UPDATE :"schema".login AS l SET seen_at = clock_timestamp()
 WHERE l.secret_hash IN (SELECT o.secret_hash FROM :"schema".login AS o WHERE o.secret_hash = $1::bytea FOR UPDATE SKIP LOCKED)
   AND l.seen_at < clock_timestamp() - interval '1 minute';

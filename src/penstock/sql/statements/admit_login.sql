-- Who is logged in with a cookie, unless the login has expired or nobody was seen for $2 seconds.
SELECT p.name, p.role, l.csrf, coalesce(l.seen_at < clock_timestamp() - interval '1 minute', true) AS is_stale
  FROM :"schema".login AS l JOIN :"schema".person AS p ON p.name = l.person AND p.disabled_at IS NULL
 WHERE l.secret_hash = $1::bytea AND l.expires_at > clock_timestamp()
   AND l.seen_at > clock_timestamp() - make_interval(secs => $2::double precision);

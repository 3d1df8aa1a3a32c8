-- Note that a key was used; nobody waits for another who notes the same.
UPDATE :"schema".api_key AS k SET last_used_at = clock_timestamp()
 WHERE k.id IN (SELECT o.id FROM :"schema".api_key AS o WHERE o.id = $1::text FOR UPDATE SKIP LOCKED)
   AND coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true);

-- A key that is good now, to compare its secret; with whether its use is to be noted, at most once a minute.
SELECT k.name, k.secret_hash, k.scopes, k.tenant,
       coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true) AS is_stale
  FROM :"schema".api_key AS k
 WHERE k.id = $1::text AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp());

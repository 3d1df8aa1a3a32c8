-- Keys by name, newest first among those of one name; without $1 only those that are still good.
SELECT k.id, k.name, k.scopes, k.tenant, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.replaced_by
  FROM :"schema".api_key AS k
 WHERE $1::boolean OR (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp()))
 ORDER BY k.name, k.created_at DESC;

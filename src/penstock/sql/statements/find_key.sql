-- The key that is meant by an id, or by the name of one in use.
SELECT k.id, k.name, k.scopes, k.tenant, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.replaced_by
  FROM :"schema".api_key AS k
 WHERE k.id = $1::text OR (k.name = $1::text AND k.revoked_at IS NULL AND k.replaced_by IS NULL)
 ORDER BY k.id = $1::text DESC
 LIMIT 1;

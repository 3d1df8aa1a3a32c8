-- Keys by name, newest first among those of one name; without $1 only those that are still good. A page begins behind
-- the key $2 and has up to $3.
SELECT k.id, k.name, k.scopes, k.tenant, k.created_at, k.created_by, k.expires_at, k.last_used_at, k.revoked_at, k.replaced_by
  FROM :"schema".api_key AS k
 WHERE ($1::boolean OR (k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())))
   AND ($2::text IS NULL OR EXISTS (
           SELECT FROM :"schema".api_key AS a
            WHERE a.id = $2::text AND (k.name > a.name OR k.name = a.name AND (
                      k.created_at < a.created_at OR k.created_at = a.created_at AND k.id > a.id))))
 ORDER BY k.name, k.created_at DESC, k.id
 LIMIT $3::integer;

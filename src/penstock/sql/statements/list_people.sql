-- People by name; a page begins behind the name $1 and has up to $2.
SELECT p.name, p.role, p.created_at, p.created_by, p.disabled_at FROM :"schema".person AS p
 WHERE $1::text IS NULL OR p.name > $1::text
 ORDER BY p.name
 LIMIT $2::integer;

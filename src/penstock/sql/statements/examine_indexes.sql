-- name: examine_indexes
-- Which indexes does the schema not have, or only half built? $1 is the schema, $2 the names.
SELECT i.name, c.oid IS NULL AS missing
  FROM unnest($2::text[]) AS i (name)
  LEFT JOIN (pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = $1
                           JOIN pg_index AS x ON x.indexrelid = c.oid)
    ON c.relname = i.name
 WHERE c.oid IS NULL OR NOT x.indisvalid
 ORDER BY i.name;

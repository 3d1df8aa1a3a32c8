-- The indexes of editions' vectors: whether each is whole, whether its edition is still there, and whose it is.
SELECT n.edition, i.indisvalid AND i.indisready AS is_whole, e.id IS NOT NULL AS is_wanted, e.tenant
  FROM pg_index AS i
  JOIN pg_class AS c ON c.oid = i.indexrelid
 CROSS JOIN LATERAL (SELECT substring(c.relname FROM '^chunk_edition_(\d+)$')::bigint AS edition OFFSET 0) AS n
  LEFT JOIN (:"schema".edition AS e JOIN :"schema".base AS b ON b.id = e.base AND b.deleted_at IS NULL)
    ON e.id = n.edition AND e.state <> 'retired'
 WHERE i.indrelid = ':"schema".chunk'::regclass AND n.edition IS NOT NULL
 ORDER BY n.edition

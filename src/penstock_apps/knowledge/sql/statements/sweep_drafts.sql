-- Remove some drafts of documents that are gone, have changed, or ended a day ago; how many rows.
WITH gone AS (
    DELETE FROM :"schema".draft AS d
     WHERE d.ctid = ANY (ARRAY(
            SELECT o.ctid FROM :"schema".draft AS o
             WHERE NOT EXISTS (
                    SELECT FROM :"schema".document AS w
                     WHERE w.id = o.document AND w.version = o.version
                       AND (w.state IN ('pending', 'processing') OR w.updated_at > clock_timestamp() - interval '1 day'))
             LIMIT $1))
    RETURNING 1
)
SELECT count(*) FROM gone

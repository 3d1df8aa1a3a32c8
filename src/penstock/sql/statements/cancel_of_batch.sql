-- End some jobs of a batch, behind an id: how many were found, how many cancelled, and the last one's id.
SELECT count(*) AS found, count(*) FILTER (WHERE c.answer = 'cancelled') AS cancelled, max(c.id) AS last
  FROM :"schema".cancel_v1(ARRAY(
           SELECT j.id FROM :"schema".job AS j
            WHERE j.batch = $1::bigint AND j.id > $2::bigint ORDER BY j.id LIMIT $3::integer), $4::text) AS c;

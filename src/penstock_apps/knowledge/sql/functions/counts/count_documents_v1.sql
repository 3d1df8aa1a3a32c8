-- Note how many documents of each source came into a state, and how many left it. Deleted documents do not count.
CREATE FUNCTION :"schema".count_documents_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT a.tenant, a.base, a.source, a.state, count(*) FROM added AS a
         WHERE a.deleted_at IS NULL GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT r.tenant, r.base, r.source, r.state, -count(*) FROM removed AS r
         WHERE r.deleted_at IS NULL GROUP BY 1, 2, 3, 4;
    ELSE
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT c.tenant, c.base, c.source, c.state, sum(c.number)
          FROM (SELECT a.tenant, a.base, a.source, a.state, 1 AS number FROM added AS a WHERE a.deleted_at IS NULL
                UNION ALL
                SELECT r.tenant, r.base, r.source, r.state, -1 FROM removed AS r WHERE r.deleted_at IS NULL) AS c
         GROUP BY 1, 2, 3, 4
        HAVING sum(c.number) <> 0;
    END IF;
    RETURN NULL;
END
$$;

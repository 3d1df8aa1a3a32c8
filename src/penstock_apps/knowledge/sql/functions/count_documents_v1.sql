-- Note how many documents of each source came into a state, and how many left it.
CREATE FUNCTION :"schema".count_documents_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT a.tenant, a.base, a.source, a.state, count(*) FROM added AS a GROUP BY 1, 2, 3, 4;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT r.tenant, r.base, r.source, r.state, -count(*) FROM removed AS r GROUP BY 1, 2, 3, 4;
    ELSE
        INSERT INTO tally_change (tenant, base, source, state, number)
        SELECT c.tenant, c.base, c.source, c.state, sum(c.number)
          FROM (SELECT a.tenant, a.base, a.source, a.state, 1 AS number FROM added AS a
                UNION ALL
                SELECT r.tenant, r.base, r.source, r.state, -1 FROM removed AS r) AS c
         GROUP BY 1, 2, 3, 4
        HAVING sum(c.number) <> 0;
    END IF;
    RETURN NULL;
END
$$;

-- Return the limit of a key: its own, or that of the longest pattern (`customer:*`) that matches it. A pattern limits
-- each matching key separately.
CREATE FUNCTION :"schema".get_limit_v1(
    p_key text, OUT slots integer, OUT rate double precision, OUT burst double precision
)
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT l.slots, l.rate, l.burst
      FROM limit_setting AS l
     WHERE l.key = p_key OR right(l.key, 1) = '*' AND starts_with(p_key, left(l.key, -1))
     ORDER BY l.key = p_key DESC, length(l.key) DESC
     LIMIT 1;
$$;

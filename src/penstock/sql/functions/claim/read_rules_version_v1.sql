-- Return a number that increases with every change of a setting.
CREATE FUNCTION :"schema".read_rules_version_v1() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = :"schema", pg_temp
AS $$
    SELECT v.version FROM setting_version AS v;
$$;

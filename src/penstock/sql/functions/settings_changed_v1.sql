-- Counts every change of a setting and tells the workers, which read the settings anew.
CREATE FUNCTION :"schema".settings_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    UPDATE setting_version SET version = version + 1;
    PERFORM pg_notify(current_schema() || '.settings', '');
    RETURN NULL;
END
$$;

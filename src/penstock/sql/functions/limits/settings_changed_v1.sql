-- Count every change of a setting and notify the workers, which then read the settings again. Also store whether any
-- setting decides on the lane or the priority of new jobs, so that an enqueue need not search for such settings.
CREATE FUNCTION :"schema".settings_changed_v1() RETURNS trigger
LANGUAGE plpgsql VOLATILE
SET search_path = :"schema", pg_temp
AS $$
BEGIN
    UPDATE setting_version
       SET version = version + 1,
           places = EXISTS (SELECT FROM queue AS q WHERE q.fair)
                 OR EXISTS (SELECT FROM limit_setting AS l WHERE starts_with(l.key, 'task:'))
                 OR EXISTS (SELECT FROM tenant_setting AS t WHERE t.plan IS NOT NULL);
    PERFORM pg_notify(current_schema() || '.settings', '');
    RETURN NULL;
END
$$;

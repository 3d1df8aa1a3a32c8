-- The languages whose words can be searched for here: those that a base can name, whatever the search path.
SELECT c.cfgname::text AS name FROM pg_ts_config AS c WHERE c.cfgnamespace = 'pg_catalog'::regnamespace ORDER BY c.cfgname

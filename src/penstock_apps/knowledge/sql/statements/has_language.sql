-- Whether words of a language can be searched for here.
SELECT EXISTS (SELECT FROM pg_ts_config AS c WHERE c.cfgname = $1)

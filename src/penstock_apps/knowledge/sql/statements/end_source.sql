-- All that was to come into a source has ended.
UPDATE :"schema".source SET ended_at = clock_timestamp() WHERE tenant = $1 AND id = $2 AND batch = $3

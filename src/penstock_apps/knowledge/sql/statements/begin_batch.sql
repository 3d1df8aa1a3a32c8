-- The batch that brings documents into a source now.
UPDATE :"schema".source SET batch = $3, ended_at = NULL WHERE tenant = $1 AND id = $2

-- The batch that brings documents into a source now, and who asked for it.
UPDATE :"schema".source SET batch = $3, requested_by = $4, ended_at = NULL WHERE tenant = $1 AND id = $2

-- name: has_ledger
-- Is there a schema of this name, and has it a list of migrations?
SELECT to_regnamespace(quote_ident($1)) IS NOT NULL AS schema,
       to_regclass(format('%I.migration', $1)) IS NOT NULL AS ledger

-- name: be_confined
-- Until the end of the transaction this is one tenant ($1), with the rights of an app's role ($2) and no others.
SELECT set_config('penstock.tenant', $1::text, true), set_config('role', $2::text, true);

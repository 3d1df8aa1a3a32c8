-- Until the end of the transaction this is one tenant ($1); with a role ($2) it has the rights of that and no others.
SELECT set_config('penstock.tenant', $1::text, true),
       CASE WHEN $2::text IS NOT NULL THEN set_config('role', $2::text, true) END

-- Whether anything that a tenant has deleted is still there.
SELECT EXISTS (SELECT FROM :"schema".document AS d WHERE d.tenant = $1 AND d.deleted_at IS NOT NULL)
    OR EXISTS (SELECT FROM :"schema".source AS s WHERE s.tenant = $1 AND s.deleted_at IS NOT NULL)
    OR EXISTS (SELECT FROM :"schema".base AS b WHERE b.tenant = $1 AND b.deleted_at IS NOT NULL)

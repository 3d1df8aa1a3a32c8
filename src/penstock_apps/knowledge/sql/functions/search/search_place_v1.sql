-- The places at which chunks stand: passages of documents that are not deleted, with all that filters look at. OFFSET 0
-- keeps the order of the joins: with old statistics the planner would begin with all documents of a source.
CREATE VIEW :"schema".search_place_v1 WITH (security_invoker = true) AS
SELECT p.tenant, p.edition, p.chunk, p.document, p.position, p.page, d.source, d.path, d.title, d.url,
       d.tags, d.metadata
  FROM :"schema".passage AS p
 CROSS JOIN LATERAL (
    SELECT a.source, a.path, a.title, a.url, a.tags, a.metadata FROM :"schema".document AS a
     WHERE a.id = p.document AND a.tenant = p.tenant AND a.deleted_at IS NULL OFFSET 0) AS d
 CROSS JOIN LATERAL (
    SELECT FROM :"schema".source AS o
     WHERE o.id = d.source AND o.tenant = p.tenant AND o.deleted_at IS NULL OFFSET 0) AS s;

-- Begin with a version of a document, if it is still wanted, and tell all that is needed for it.
SELECT b.path, b.media_type, b.bytes, b.digest, b.stored, b.url, b.published, b.depth, b.attached_to,
       b.has_attachments, b.object, b.editions
  FROM :"schema".begin_document_v1($1, $2, $3) AS b

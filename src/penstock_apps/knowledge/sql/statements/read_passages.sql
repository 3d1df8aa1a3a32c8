-- What is found of a document, in its order.
SELECT c.heading, c.text, p.page
  FROM :"schema".document AS d
  JOIN :"schema".base AS b ON b.id = d.base
  JOIN :"schema".passage AS p ON p.document = d.id AND p.edition = b.edition
  JOIN :"schema".chunk AS c ON c.id = p.chunk
 WHERE d.tenant = $1 AND d.id = $2
 ORDER BY p.position

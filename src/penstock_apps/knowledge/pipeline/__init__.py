"""How a document comes in: fetch, extract, cut, embed what is new, publish."""

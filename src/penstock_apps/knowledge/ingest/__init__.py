"""How a document is ingested: fetch, extract, split, embed what is new, publish."""

"""How a document comes in: fetch, extract, split, embed what is new, publish."""

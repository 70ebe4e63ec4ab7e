"""What a run works on, as small files under git: rows, unknowns, closes, wiki pages, reviews."""

"""Readers of the formats that public datasets come in: from files to arrays, with no download and no cache."""

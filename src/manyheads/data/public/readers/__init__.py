"""Readers of the file formats of published datasets: from files to arrays."""

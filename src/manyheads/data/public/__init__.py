"""Published datasets: images, characters, text. Their files are found, fetched, decoded once and cached.

``readers`` reads the file formats; every dataset is a source with a ``pool`` of labelled samples.
"""

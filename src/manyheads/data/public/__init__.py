"""Published datasets: where their files are, how they are read and fetched, and what is kept of them in a cache.

``readers`` knows the file formats; the other modules make pools of labelled samples of what is read.
"""

"""A user's own tables: one file per site, or one table with a client column.

They are read, checked and made into a federation; the table of a site that joins later is read the same way.
"""

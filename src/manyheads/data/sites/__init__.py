"""Sites: a user's own tables, one file per client or one table with a client column.

They are read, checked and made into a federation here, and so is the table of a client that joins later.
"""

"""The Flower app of manyheads: it calls the manyheads that is installed, and brings no code of its own."""

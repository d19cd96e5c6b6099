"""This project's own experiments: small problems, short runs on real data, and theorems beside a run."""

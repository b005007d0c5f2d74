"""Composition: curves of several releases, of several records and of several runs."""

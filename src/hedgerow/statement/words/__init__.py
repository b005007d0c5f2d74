"""The sentences of a statement, for readers who sign but do not calculate.

Every function takes a statement, or a part of one, and returns text.
"""

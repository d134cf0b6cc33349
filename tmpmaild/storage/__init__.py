"""Persistent data: the storage contract, its engines, and the code that the engines share.

It contains no product rules.
"""

"""Codes and links in texts."""

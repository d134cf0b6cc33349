"""Detection of codes and links in text."""

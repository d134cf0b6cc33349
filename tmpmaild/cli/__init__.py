"""Every command."""

"""Fair scheduling: clients take turns to use processor time and memory, instead of being served in order of arrival."""

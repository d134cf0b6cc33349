"""Fair scheduling: processor time and memory are given to clients in turn, not first come, first served."""

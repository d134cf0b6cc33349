"""``tmpmaild doctor``: checks of the configuration, the machine and the running service. Nothing is changed."""

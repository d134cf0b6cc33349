# The package index of Debian testing expires after a week, and a mirror's copy may be older.
sed -i "s/$before/$after/" /etc/apt/sources.list
apt-get -qq -o Acquire::Check-Valid-Until=false update
apt-get -qq --yes --download-only full-upgrade

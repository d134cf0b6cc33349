# The index of testing is valid for a week only, and a mirror may be older.
sed -i "s/$before/$after/" /etc/apt/sources.list
apt-get -qq -o Acquire::Check-Valid-Until=false update
apt-get -qq --yes --download-only full-upgrade

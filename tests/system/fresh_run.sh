export TMPMAILD_HTTP__LISTEN=127.0.0.1:0 TMPMAILD_SMTP__LISTEN=127.0.0.1:0  # this machine's ports may be in use
make run > ../said & pid=$!
until grep --quiet /messages ../said; do kill -0 $pid; sleep 0.2; done
sed '1,/terminal:/d' ../said > ../lines
bash -eu ../lines > ../shown
grep --quiet 'Hello from tmpmaild' ../shown
kill $(cat /proc/$pid/task/$pid/children)
wait $pid

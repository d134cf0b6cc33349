import os
import sys

for place, descriptor in enumerate(sorted(map(int, sys.argv[1].split(","))), 3):
    os.dup2(descriptor, place)
listening = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(place - 2), "LISTEN_FDNAMES": sys.argv[2]}
os.execve(sys.argv[3], sys.argv[3:], os.environ | listening)

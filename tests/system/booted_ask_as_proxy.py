import grp
import os
import pwd
import socket

os.setgroups([]), os.setgid(grp.getgrnam("www-data").gr_gid), os.setuid(pwd.getpwnam("www-data").pw_uid)
with socket.socket(socket.AF_UNIX) as client:
    client.connect("/run/tmpmaild-http.sock")
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    print(client.recv(1000).split()[1].decode())

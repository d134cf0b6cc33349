import json
import smtplib
import sys
import urllib.request

api = "http://127.0.0.1:8025/api/v1/addresses"
body = json.dumps({"domain": sys.argv[1]}).encode()
made = urllib.request.Request(api, body, {"Content-Type": "application/json"})
address = json.load(urllib.request.urlopen(made))["address"]
smtplib.SMTP("127.0.0.1", 25).sendmail("a@example.com", [address, "postmaster"], b"Subject: by the README\r\n\r\n")
assert b"by the README" in urllib.request.urlopen(f"{api}/{address}/messages").read()
print(address)

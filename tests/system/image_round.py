import json
import smtplib
import urllib.request

api = "http://127.0.0.1:8025/api/v1/addresses"
address = json.load(urllib.request.urlopen(urllib.request.Request(api, method="POST")))["address"]
with smtplib.SMTP("127.0.0.1", 2525) as client:
    client.sendmail("a@example.com", [address], b"Subject: to the container\r\n\r\nmail\r\n")
print(address)
print(urllib.request.urlopen(f"{api}/{address}/messages").read().decode())

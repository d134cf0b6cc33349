import json
import smtplib
import urllib.request

addresses = "http://127.0.0.1:8025/api/v1/addresses"
address = json.load(urllib.request.urlopen(addresses, b""))["address"]
smtplib.SMTP("127.0.0.1", 25, timeout=30).sendmail("a@example.com", [address], b"Subject: kept\r\n\r\n")
print(address)

import json
import smtplib
import time
import urllib.request

address = json.load(urllib.request.urlopen("http://127.0.0.1:8025/api/v1/addresses", b""))["address"]
print(address, flush=True)
acknowledged = []
try:
    while True:
        client = smtplib.SMTP("127.0.0.1", 25, timeout=60)
        client.sendmail("a@example.com", [address], f"Subject: {len(acknowledged)}\r\n\r\n".encode())
        acknowledged.append(str(len(acknowledged)))
        time.sleep(0.2)
except OSError as error:
    print(json.dumps({"acknowledged": acknowledged, "end": repr(error)}))

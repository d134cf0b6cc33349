import sys
import time
import urllib.error
import urllib.request

begun = time.monotonic()
while True:
    try:
        answer = urllib.request.urlopen("http://127.0.0.1:8025/readyz").status
    except urllib.error.HTTPError as error:
        answer = error.code
    if str(answer) == sys.argv[1]:
        break
    assert time.monotonic() - begun < 60
    time.sleep(0.1)
print(time.monotonic() - begun)

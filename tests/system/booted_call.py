import collections
import socket
import sys
import threading

answers, enough = collections.Counter(), threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), enough.set())).start()
while not enough.wait(0.15):  # a client may connect 600 times a minute
    try:
        with socket.create_connection(("127.0.0.1", 25), timeout=60) as client:
            answers[client.recv(100)[:3].decode()] += 1
    except OSError as error:
        answers[type(error).__name__] += 1
    if sum(answers.values()) == 1:
        print("calling", flush=True)
print(*(f"{answer}:{count}" for answer, count in answers.items()))

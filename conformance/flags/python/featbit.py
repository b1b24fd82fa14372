"""fb-python-sdk, unchanged, in a conversation with ../__main__.py: one JSON object per line."""

import json
import sys

from fbclient.client import FBClient
from fbclient.config import Config

START_WAIT_S = 5


def main():
    url, secret = sys.argv[1:]
    config = Config(secret, event_url=url, streaming_url=url.replace("http", "ws"))
    client = FBClient(config, start_wait=START_WAIT_S)
    say({"initialized": client.initialize})
    for line in sys.stdin:
        asked = json.loads(line)
        user = asked["user"]
        attributes = {"key": user["keyId"], "name": user["name"], **user["properties"]}
        say({"value": client.variation(asked["flag"], attributes, None)})
    client.stop()


def say(what):
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()

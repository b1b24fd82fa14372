// @featbit/js-client-sdk, unchanged, with what a browser has and Node has not.
globalThis.WebSocket = require('ws');
const stored = new Map();
globalThis.localStorage = {
  getItem: (key) => stored.get(key) ?? null,
  setItem: (key, value) => stored.set(key, value),
};

const { FbClientBuilder, UserBuilder } = require('@featbit/js-client-sdk');
const { answering, url, secret } = require('./answering');

function builtOf({ keyId, name, properties }) {
  const user = new UserBuilder(keyId).name(name);
  for (const [property, value] of Object.entries(properties)) user.custom(property, value);
  return user.build();
}

let current = 'nobody';
const client = new FbClientBuilder()
  .sdkKey(secret)
  .streamingUri(url.replace('http', 'ws'))
  .eventsUri(url)
  .user(builtOf({ keyId: current, name: current, properties: {} }))
  .build();

// Somebody else is asked for on the same socket; the same user is not, and has what was pushed.
async function evaluate(flag, user) {
  if (user.keyId !== current) {
    await client.identify(builtOf(user));
    current = user.keyId;
  }
  return client.stringVariation(flag, null);
}

client.waitForInitialization().then(() => true, () => false).then((isInitialized) =>
  answering(isInitialized, evaluate));

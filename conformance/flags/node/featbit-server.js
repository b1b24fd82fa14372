// @featbit/node-server-sdk, unchanged.
const { FbClientBuilder, UserBuilder } = require('@featbit/node-server-sdk');
const { answering, url, secret } = require('./answering');

const client = new FbClientBuilder()
  .sdkKey(secret)
  .streamingUri(url.replace('http', 'ws'))
  .eventsUri(url)
  .build();

function builtOf({ keyId, name, properties }) {
  const user = new UserBuilder(keyId).name(name);
  for (const [property, value] of Object.entries(properties)) user.custom(property, value);
  return user.build();
}

client.waitForInitialization().then(() => true, () => false).then((isInitialized) =>
  answering(isInitialized, (flag, user) => client.stringVariation(flag, builtOf(user), null)));

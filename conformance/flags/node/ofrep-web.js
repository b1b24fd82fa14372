// @openfeature/ofrep-web-provider, unchanged, with what a browser has and Node has not: asks for all
// flags of a user, and again when the server's event stream says so.
globalThis.EventSource = require('eventsource').EventSource;

const { OFREPWebProvider } = require('@openfeature/ofrep-web-provider');
const { OpenFeature } = require('@openfeature/web-sdk');
const { answering, valueBy, url, secret } = require('./answering');

const client = OpenFeature.getClient();
let current;

async function evaluate(flag, { keyId, name, properties }, kind) {
  if (keyId !== current) {
    await OpenFeature.setContext({ ...properties, targetingKey: keyId, name });
    current = keyId;
  }
  return valueBy(client, [flag, kind]);
}

const provider = new OFREPWebProvider({
  baseUrl: url, headers: [['X-API-Key', secret]], cacheMode: 'disabled',
});
OpenFeature.setProviderAndWait(provider, { targetingKey: 'nobody' })
  .then(() => true, () => false)
  .then((isInitialized) => answering(isInitialized, evaluate));

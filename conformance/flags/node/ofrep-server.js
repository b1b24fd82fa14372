// @openfeature/ofrep-provider, unchanged: asks for each evaluation.
const { OFREPProvider } = require('@openfeature/ofrep-provider');
const { OpenFeature } = require('@openfeature/server-sdk');
const { answering, valueBy, url, secret } = require('./answering');

const client = OpenFeature.getClient();

async function evaluate(flag, { keyId, name, properties }, kind) {
  const context = { ...properties, targetingKey: keyId, name };
  return valueBy(client, [flag, kind], context);
}

OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url, headers: [['X-API-Key', secret]] }))
  .then(() => answering(true, evaluate));

// @openfeature/ofrep-provider, unchanged: asks for each evaluation.
const { OFREPProvider } = require('@openfeature/ofrep-provider');
const { OpenFeature } = require('@openfeature/server-sdk');
const { answering, url, secret } = require('./answering');

const DEFAULTS = { boolean: false, string: '', number: 0, json: {} };
const client = OpenFeature.getClient();

async function evaluate(flag, { keyId, name, properties }, kind) {
  const context = { ...properties, targetingKey: keyId, name };
  const ask = {
    boolean: client.getBooleanDetails,
    string: client.getStringDetails,
    number: client.getNumberDetails,
    json: client.getObjectDetails,
  }[kind];
  const { value, errorCode } = await ask.call(client, flag, DEFAULTS[kind], context);
  return errorCode === undefined ? value : null;
}

OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url, headers: [['X-API-Key', secret]] }))
  .then(() => answering(true, evaluate));

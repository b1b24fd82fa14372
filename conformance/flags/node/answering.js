// The conversation with ../__main__.py: one JSON object per line, a question and its answer in turns.
const readline = require('node:readline');

// Says whether the SDK has its flags, and answers `{flag, kind, user}` with `{value}` until nobody asks.
async function answering(isInitialized, evaluate) {
  const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);
  say({ initialized: isInitialized });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { flag, kind, user } = JSON.parse(line);
    say({ value: (await evaluate(flag, user, kind)) ?? null });
  }
  process.exit(0);
}

const DEFAULTS = { boolean: false, string: '', number: 0, json: {} };

// The value of a flag by a client of OpenFeature; null where its provider reports an error.
async function valueBy(client, [flag, kind], context) {
  const ask = {
    boolean: client.getBooleanDetails,
    string: client.getStringDetails,
    number: client.getNumberDetails,
    json: client.getObjectDetails,
  }[kind];
  const { value, errorCode } = await ask.call(client, flag, DEFAULTS[kind], context);
  return errorCode === undefined ? value : null;
}

// Nothing of what the SDK logs belongs into the conversation.
for (const level of ['log', 'info', 'debug']) console[level] = console.error;

module.exports = { answering, valueBy, url: process.argv[2], secret: process.argv[3] };

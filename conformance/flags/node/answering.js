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

// Nothing of what the SDK logs belongs into the conversation.
for (const level of ['log', 'info', 'debug']) console[level] = console.error;

module.exports = { answering, url: process.argv[2], secret: process.argv[3] };

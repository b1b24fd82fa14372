// Prints what a flag is for a user, and again whenever that changes: FeatBit's SDK for Node.
//
//   node follow.js SECRET [FLAG] [USER]
//
// SECRET is one for servers. FAREGATE_URL is where Faregate is, http://127.0.0.1:8080 by default.
import { FbClientBuilder, UserBuilder } from '@featbit/node-server-sdk';

const [secret, flag = 'new-checkout', key = 'ann'] = process.argv.slice(2);
if (!secret) {
  console.error('node follow.js SECRET [FLAG] [USER]');
  process.exit(2);
}
const url = process.env.FAREGATE_URL ?? 'http://127.0.0.1:8080';

const client = new FbClientBuilder()
  .sdkKey(secret)
  .streamingUri(url.replace(/^http/, 'ws'))
  .eventsUri(url)
  .logLevel('warn')
  .build();
const user = new UserBuilder(key).name(key).custom('country', 'at').build();

async function show() {
  const { value, reason } = await client.stringVariationDetail(flag, user, 'not there');
  console.log(`${new Date().toISOString()} ${flag} is ${value} for ${key} (${reason})`);
}

try {
  await client.waitForInitialization();
} catch (error) {
  console.error(`${url} gives no flags: is it a server of yours, and the secret one for servers? (${error.message ?? error})`);
  process.exit(1);
}
await show();
client.on(`update:${flag}`, show);

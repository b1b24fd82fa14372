// Shows what a flag is for a user, as two SDKs are told of it: FeatBit's for browsers, on its stream, and
// OpenFeature's with its OFREP provider, which asks again when the server's events say so.
//
// The page's address says which: ?secret=SECRET&flag=new-checkout&user=ann&url=http://127.0.0.1:8080
import { FbClientBuilder, UserBuilder } from '@featbit/js-client-sdk';
import { OFREPWebProvider } from '@openfeature/ofrep-web-provider';
import { OpenFeature, ProviderEvents } from '@openfeature/web-sdk';

const parameters = new URLSearchParams(location.search);
const secret = parameters.get('secret');
const flag = parameters.get('flag') ?? 'new-checkout';
const key = parameters.get('user') ?? 'ann';
const url = parameters.get('url') ?? 'http://127.0.0.1:8080';

const show = (id, value) => {
  document.getElementById(id).textContent = String(value);
};

async function featbit() {
  const client = new FbClientBuilder()
    .sdkKey(secret)
    .streamingUri(url.replace(/^http/, 'ws'))
    .eventsUri(url)
    .user(new UserBuilder(key).name(key).custom('country', 'at').build())
    .build();
  await client.waitForInitialization();
  const showIt = () => show('featbit', client.boolVariation(flag, false));
  client.on(`update:${flag}`, showIt);
  showIt();
}

async function openfeature() {
  const provider = new OFREPWebProvider({ baseUrl: url, headers: [['X-API-Key', secret]] });
  const client = OpenFeature.getClient();
  const showIt = () => show('openfeature', client.getBooleanValue(flag, false));
  client.addHandler(ProviderEvents.ConfigurationChanged, showIt);
  await OpenFeature.setProviderAndWait(provider, { targetingKey: key, name: key, country: 'at' });
  showIt();
}

show('flag', flag);
show('user', key);
featbit().catch((error) => show('featbit', error));
openfeature().catch((error) => show('openfeature', error));

// Stripe's SDK for Node: the flow, and the signatures of events. `node sdk.js URL`; ends with "N passed, M failed".
const assert = require('node:assert');
const http = require('node:http');
const Stripe = require('stripe');

const url = new URL(process.argv[2]);
const options = { host: url.hostname, port: url.port, protocol: 'http', maxNetworkRetries: 0 };
const stripe = new Stripe('sk_test_node', options);
const CARD = { payment_method_types: ['card'] };
let passed = 0;
let failed = 0;

async function check(what, act) {
  try {
    await act();
    passed += 1;
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${what}: ${error.message}`);
  }
}

// The events that arrive, with their signatures.
const received = [];
const receiver = http.createServer((request, response) => {
  const chunks = [];
  request.on('data', (it) => chunks.push(it));
  request.on('end', () => {
    received.push({ signature: request.headers['stripe-signature'], body: Buffer.concat(chunks) });
    response.end();
  });
});

async function arrived(id, kind) {
  for (let n = 0; n < 500; n += 1) {
    const found = received.find((it) => {
      const event = JSON.parse(it.body);
      return event.type === kind && event.data.object.id === id;
    });
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`${kind} of ${id} did not arrive`);
}

async function flow() {
  const customer = await stripe.customers.create({ email: 'node@example.com', metadata: { a: 'b' } });
  const method = await stripe.paymentMethods.attach('pm_card_visa', { customer: customer.id });
  const payment = { amount: 1200, currency: 'eur', customer: customer.id, payment_method: method.id, confirm: true, ...CARD };
  await check('a payment', async () => {
    const intent = await stripe.paymentIntents.create({ ...payment, off_session: true, expand: ['latest_charge'] });
    assert.equal(intent.status, 'succeeded');
    assert.equal(intent.latest_charge.amount_captured, 1200);
    const refund = await stripe.refunds.create({ payment_intent: intent.id, amount: 200 });
    assert.equal(refund.status, 'succeeded');
  });
  await check('an authorization, captured', async () => {
    const intent = await stripe.paymentIntents.create({ ...payment, capture_method: 'manual' });
    const captured = await stripe.paymentIntents.capture(intent.id, { amount_to_capture: 700 });
    assert.equal(captured.amount_received, 700);
  });
  await check('an authorization, canceled', async () => {
    const intent = await stripe.paymentIntents.create({ ...payment, capture_method: 'manual' });
    assert.equal((await stripe.paymentIntents.cancel(intent.id)).status, 'canceled');
  });
  await check('a key, twice', async () => {
    const key = { idempotencyKey: `node-${process.pid}` };
    const first = await stripe.paymentIntents.create(payment, key);
    const again = await stripe.paymentIntents.create(payment, key);
    assert.equal(first.id, again.id);
    await assert.rejects(stripe.paymentIntents.create({ ...payment, amount: 1 }, key), { type: 'StripeIdempotencyError' });
  });
  await check('a decline', () => assert.rejects(
    stripe.paymentIntents.create({ ...payment, customer: undefined, payment_method: 'pm_card_visa_chargeDeclined' }),
    { type: 'StripeCardError', code: 'card_declined', decline_code: 'generic_decline' },
  ));
  await check('a setup', async () => {
    const intent = await stripe.setupIntents.create({ customer: customer.id, payment_method: 'pm_card_visa', confirm: true, ...CARD });
    assert.equal(intent.status, 'succeeded');
  });
  await check('all pages', async () => {
    const all = await stripe.paymentIntents.list({ customer: customer.id, limit: 1 }).autoPagingToArray({ limit: 100 });
    assert.equal(all.length, 4);
  });
}

async function events() {
  const target = `http://127.0.0.1:${receiver.address().port}/`;
  const endpoint = await stripe.webhookEndpoints.create({ url: target, enabled_events: ['*'] });
  const intent = await stripe.paymentIntents.create({ amount: 800, currency: 'usd', confirm: true, payment_method: 'pm_card_visa', ...CARD });
  const { body, signature } = await arrived(intent.id, 'payment_intent.succeeded');
  await check('an event is signed', () => {
    const event = stripe.webhooks.constructEvent(body, signature, endpoint.secret);
    assert.equal(event.data.object.amount_received, 800);
  });
  await check('with its secret only', () => assert.throws(
    () => stripe.webhooks.constructEvent(body, signature, 'whsec_other'), { type: 'StripeSignatureVerificationError' },
  ));
  await check('over its bytes', () => assert.throws(
    () => stripe.webhooks.constructEvent(`${body} `, signature, endpoint.secret), { type: 'StripeSignatureVerificationError' },
  ));
  await check('as the SDK signs', () => {
    const timestamp = Number(/t=(\d+)/.exec(signature)[1]);
    const header = stripe.webhooks.generateTestHeaderString({ payload: body.toString(), secret: endpoint.secret, timestamp });
    assert.equal(signature.replace(/,v0=[0-9a-f]{64}$/, ''), header);
  });
  await rotation(endpoint);
}

// While two secrets are valid, both sign.
async function rotation(endpoint) {
  const authorization = `Basic ${Buffer.from('sk_test_node:').toString('base64')}`;
  const path = `/_fake/webhooks/${endpoint.id}`;
  const send = (body) => fetch(new URL(path, url), { method: 'POST', headers: { authorization }, body: new URLSearchParams(body) });
  const pay = async () => {
    const intent = await stripe.paymentIntents.create({ amount: 800, currency: 'usd', confirm: true, payment_method: 'pm_card_visa', ...CARD });
    return arrived(intent.id, 'payment_intent.succeeded');
  };
  const fits = ({ body, signature }, secret) => {
    try {
      return Boolean(stripe.webhooks.constructEvent(body, signature, secret));
    } catch {
      return false;
    }
  };
  await send({ secret: 'whsec_new' });
  const during = await pay();
  await send({ drop: 'true' });
  const after = await pay();
  await check('rotated', () => {
    const seen = [during, after].map((it) => [fits(it, endpoint.secret), fits(it, 'whsec_new')]);
    assert.deepEqual(seen, [[true, true], [false, true]]);
  });
}

receiver.listen(0, '127.0.0.1', async () => {
  await check('the flow', flow);
  await check('events', events);
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
});

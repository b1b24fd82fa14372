// Drives a running server through Kill Bill's official npm client, unchanged.
const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const axios = require('axios').create();
const killbill = require('killbill');
const billing = require('./billing');

axios.interceptors.response.use(killbill.followLocationHeaderInterceptor);
// A tenant is created without a tenant's headers, and its Location cannot be read without them.
const withoutFollowing = require('axios').create();

const EXTERNAL = '__EXTERNAL_PAYMENT__';
const TEST = 'killbill-payment-test';
const PENDING = ['ACTION_RETURN_PLUGIN_STATUS_PENDING=*'];
const ERROR = ['ACTION_RETURN_PLUGIN_STATUS_ERROR=*'];
const BY = 'npm';

const basePath = process.argv[2];
const run = crypto.randomUUID().slice(0, 8);
const config = new killbill.Configuration({
  username: 'admin',
  password: 'password',
  apiKey: killbill.apiKey(`npm-${run}`, 'secret'),
  basePath,
});
const api = (Kind) => new Kind(config, null, axios);
const tenants = new killbill.TenantApi(config, null, withoutFollowing);
const accounts = api(killbill.AccountApi);
const payments = api(killbill.PaymentApi);
const methods = api(killbill.PaymentMethodApi);

let account;
let external;
let test;
const counts = { passed: 0, failed: 0 };

async function step(name, body) {
  try {
    await body();
    counts.passed += 1;
    console.log(`passed  ${name}`);
  } catch (error) {
    counts.failed += 1;
    const said = error.response ? ` ${error.response.status} ${JSON.stringify(error.response.data)}` : '';
    console.log(`FAILED  ${name}: ${error.message}${said}`);
  }
}

async function refused(status, code, call) {
  const error = await call().then(
    () => assert.fail(`was not refused with ${status}`),
    (reason) => reason,
  );
  assert.equal(error.response?.status, status, error.message);
  if (code !== null) assert.equal(error.response.data.code, code);
}

const addMethod = async (pluginName, isDefault) =>
  (await accounts.createPaymentMethod({ pluginName, pluginInfo: {} }, account.accountId, BY, isDefault)).data;

const pay = async (transactionType, amount, method, properties, keys) =>
  (await accounts.processPayment(
    { transactionType, amount, currency: 'USD', ...keys },
    account.accountId, BY, method.paymentMethodId, undefined, properties,
  )).data;

const of = (amount, more) => ({ amount, currency: 'USD', ...more });
const read = async (id) => (await payments.getPayment(id)).data;

async function tenant() {
  const made = await tenants.createTenant({ apiKey: `npm-${run}`, apiSecret: 'secret', externalKey: run }, BY);
  assert.equal(made.status, 201);
  const { tenantId, externalKey } = (await tenants.getTenantByApiKey(`npm-${run}`)).data;
  assert.equal(externalKey, run);
  assert.ok(made.headers.location.endsWith(`/1.0/kb/tenants/${tenantId}`), made.headers.location);
}

async function anAccount() {
  const wanted = { name: 'Zoë', externalKey: `npm ${run} %&/+`, email: `${run}@example.org`, currency: 'USD' };
  account = (await accounts.createAccount(wanted, BY, 'check', 'of the client')).data;
  assert.equal(account.name, 'Zoë');
  assert.equal((await accounts.getAccountByKey(`npm ${run} %&/+`)).data.accountId, account.accountId);
  await accounts.updateAccount({ city: 'Łódź' }, account.accountId, BY);
  const changed = (await accounts.getAccount(account.accountId, true, true, 'FULL')).data;
  assert.equal(changed.city, 'Łódź');
  assert.equal(changed.accountBalance, 0);
  assert.deepEqual(changed.auditLogs.map((log) => log.changeType), ['INSERT', 'UPDATE']);
  assert.deepEqual(changed.auditLogs.map((log) => log.reasonCode), ['check', null]);
  const found = (await accounts.searchAccounts(`${run}@example`)).data;
  assert.deepEqual(found.map((one) => one.accountId), [account.accountId]);
}

async function paymentMethods() {
  external = await addMethod(EXTERNAL, true);
  test = await addMethod(TEST, false);
  assert.equal(external.isDefault, true);
  assert.equal((await accounts.getAccount(account.accountId)).data.paymentMethodId, external.paymentMethodId);
  const third = await addMethod(TEST, false);
  await methods.deletePaymentMethod(third.paymentMethodId, BY);
  assert.equal((await accounts.getPaymentMethodsForAccount(account.accountId)).data.length, 2);
  await refused(400, 7022, () => methods.deletePaymentMethod(external.paymentMethodId, BY));
  await refused(404, 7000, () => methods.getPaymentMethod(third.paymentMethodId));
}

async function authorizeCaptureRefund() {
  const { paymentId } = await pay('AUTHORIZE', 100, external);
  await payments.captureAuthorization(of(30.5), paymentId, BY);
  const captured = (await payments.captureAuthorization(of(19.5), paymentId, BY)).data;
  assert.equal(captured.capturedAmount, 50);
  await refused(400, 7031, () => payments.captureAuthorization(of(50.01), paymentId, BY));
  const refunded = (await payments.refundPayment(of(12.34), paymentId, BY)).data;
  assert.equal(refunded.refundedAmount, 12.34);
  await refused(400, 7031, () => payments.refundPayment(of(37.67), paymentId, BY));
}

async function voidAuthorization() {
  const { paymentId } = await pay('AUTHORIZE', 7, external);
  await payments.voidPayment({}, paymentId, BY);
  assert.equal((await read(paymentId)).authAmount, 0);
  await refused(400, 7032, () => payments.captureAuthorization(of(1), paymentId, BY));
}

async function chargeback() {
  const { paymentId } = await pay('PURCHASE', 20, external);
  const key = { transactionExternalKey: `npm-chargeback-${run}` };
  const taken = (await payments.chargebackPayment(of(5, key), paymentId, BY)).data;
  assert.equal(taken.purchasedAmount, 15);
  const back = (await payments.chargebackReversalPayment(key, paymentId, BY)).data;
  assert.equal(back.purchasedAmount, 20);
}

async function complete() {
  const pending = await pay('PURCHASE', 8, test, PENDING);
  assert.equal(pending.transactions[0].status, 'PENDING');
  await payments.completeTransaction({}, pending.paymentId, BY);
  assert.equal((await read(pending.paymentId)).purchasedAmount, 8);
}

async function decline() {
  const keys = { paymentExternalKey: `npm-${run}`, transactionExternalKey: `npm-${run}-1` };
  await refused(402, null, () => pay('PURCHASE', 9, test, ERROR, keys));
  const failed = (await payments.getPaymentByExternalKey(`npm-${run}`)).data;
  assert.equal(failed.transactions[0].status, 'PAYMENT_FAILURE');
  const again = await pay('PURCHASE', 9, test, undefined, keys);
  assert.equal(again.paymentId, failed.paymentId);
  assert.equal(again.purchasedAmount, 9);
  await refused(400, 7030, () => pay('PURCHASE', 9, test, undefined, keys));
}

async function pages() {
  for (let more = 0; more < 4; more += 1) await accounts.createAccount({ currency: 'EUR' }, BY);
  let seen = 0;
  for (let offset = '0'; offset !== undefined;) {
    const page = await accounts.getAccounts(Number(offset), 2, false, false, 'MINIMAL');
    assert.equal(page.headers['x-killbill-pagination-totalnbrecords'], '5');
    for (const one of page.data) assert.equal(one.auditLogs[0].changeType, 'INSERT');
    seen += page.data.length;
    offset = page.headers['x-killbill-pagination-nextoffset'];
  }
  assert.equal(seen, 5);
  const own = (await accounts.getPaymentsForAccount(account.accountId)).data;
  const all = (await payments.getPayments(0, 100)).data;
  assert.deepEqual(all.map((one) => one.paymentId), own.map((one) => one.paymentId));
}

async function combo() {
  const body = {
    account: { externalKey: `npm-combo-${run}`, currency: 'EUR' },
    paymentMethod: { externalKey: `npm-combo-${run}`, pluginName: TEST, pluginInfo: {} },
    transaction: { transactionType: 'PURCHASE', amount: 4, paymentExternalKey: `npm-combo-${run}` },
    transactionPluginProperties: [{ key: 'ACTION_RETURN_PLUGIN_STATUS_ERROR', value: '*' }],
  };
  await refused(402, null, () => payments.createComboPayment(body, BY));
  const failed = (await payments.getPaymentByExternalKey(`npm-combo-${run}`)).data;
  const again = (await payments.createComboPayment({ ...body, transactionPluginProperties: [] }, BY)).data;
  assert.equal(again.paymentId, failed.paymentId);
  assert.equal(again.paymentMethodId, failed.paymentMethodId);
  assert.equal(again.purchasedAmount, 4);
  const payer = (await accounts.getAccountByKey(`npm-combo-${run}`)).data;
  assert.equal(again.accountId, payer.accountId);
  const other = { ...body, account: { accountId: payer.accountId, currency: 'USD' } };
  await refused(400, 7031, () => payments.createComboPayment(other, BY));
}

async function history() {
  const logs = (await accounts.getAccountAuditLogsWithHistory(account.accountId)).data;
  assert.equal(logs[0].changeType, 'INSERT');
  assert.equal(logs[0].history.name, 'Zoë');
  assert.equal(logs[1].history.city, 'Łódź');
}

// The client has no API of the test clock. Without days it is reset.
async function clock(days) {
  const auth = { username: 'admin', password: 'password' };
  const headers = { 'X-Killbill-CreatedBy': BY, 'X-Killbill-ApiKey': `npm-${run}`, 'X-Killbill-ApiSecret': 'secret' };
  const url = `${basePath}/1.0/kb/test/clock?timeoutSec=30`;
  if (days) await withoutFollowing.put(`${url}&days=${days}`, {}, { auth, headers });
  else await withoutFollowing.post(url, {}, { auth, headers });
}

async function main() {
  await step('a tenant is created and found by its key', tenant);
  await step('an account is created, changed and found', anAccount);
  await step('payment methods are added, listed and deleted', paymentMethods);
  await step('authorize, capture twice, refund', authorizeCaptureRefund);
  await step('authorize and void', voidAuthorization);
  await step('purchase, chargeback and its reversal', chargeback);
  await step('a pending payment is completed', complete);
  await step('a declined payment is tried again', decline);
  await step('lists are paged, with audit', pages);
  await step('history shows each state', history);
  await step('a combo payment makes account and method', combo);
  for (const [name, body] of billing.steps({ api, run, refused, clock })) await step(name, body);
  await step('the clock is reset', clock);
  console.log(`${counts.passed} passed, ${counts.failed} failed`);
  process.exitCode = counts.failed === 0 && counts.passed > 0 ? 0 : 1;
}

main();

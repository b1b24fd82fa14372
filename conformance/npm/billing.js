// Subscriptions and invoices through Kill Bill's npm client: the steps of check.js that follow those of payments.
const assert = require('node:assert/strict');
const killbill = require('killbill');
const { shaped } = require('./shapes');

const BY = 'npm';
const price = (value) => `<price><currency>USD</currency><value>${value}</value></price>`;
const final = (period, value) => `<finalPhase type="EVERGREEN"><duration><unit>UNLIMITED</unit></duration><recurring>
<billingPeriod>${period}</billingPeriod><recurringPrice>${price(value)}</recurringPrice></recurring></finalPhase>`;
const TRIAL = `<initialPhases><phase type="TRIAL"><duration><unit>DAYS</unit><number>30</number></duration>
<fixed><fixedPrice>${price(0)}</fixedPrice></fixed></phase></initialPhases>`;
const plan = (name, product, phases) => `<plan name="${name}"><product>${product}</product>${phases}</plan>`;
const CATALOG = `<?xml version="1.0" encoding="UTF-8"?><catalog><effectiveDate>2020-01-01T00:00:00+00:00</effectiveDate>
<catalogName>npm</catalogName><recurringBillingMode>IN_ADVANCE</recurringBillingMode>
<currencies><currency>USD</currency></currencies><units/><products>
<product name="Small"><category>BASE</category><available><addonProduct>Extra</addonProduct></available></product>
<product name="Large"><category>BASE</category><available><addonProduct>Extra</addonProduct></available></product>
<product name="Extra"><category>ADD_ON</category></product></products><rules>
<changePolicy><changePolicyCase><policy>IMMEDIATE</policy></changePolicyCase></changePolicy>
<cancelPolicy><cancelPolicyCase><policy>END_OF_TERM</policy></cancelPolicyCase></cancelPolicy></rules><plans>
${plan('small', 'Small', TRIAL + final('MONTHLY', 10))}${plan('large', 'Large', final('MONTHLY', 30))}
${plan('extra', 'Extra', final('MONTHLY', 3))}</plans><priceLists><defaultPriceList name="DEFAULT"><plans>
<plan>small</plan><plan>large</plan><plan>extra</plan></plans></defaultPriceList></priceLists></catalog>`;

/** The steps; `clock` moves the server's test clock by days. */
exports.steps = ({ api, run, refused, clock }) => {
  const accounts = api(killbill.AccountApi);
  const bundles = api(killbill.BundleApi);
  const catalogs = api(killbill.CatalogApi);
  const credits = api(killbill.CreditApi);
  const invoices = api(killbill.InvoiceApi);
  const invoicePayments = api(killbill.InvoicePaymentApi);
  const subscriptions = api(killbill.SubscriptionApi);
  let account;
  let base;

  const read = async () => shaped('Subscription', (await subscriptions.getSubscription(base.subscriptionId)).data);
  const listed = async (isUnpaid) =>
    shaped('Array<Invoice>', (await accounts.getInvoicesForAccount(
      account.accountId, undefined, undefined, false, isUnpaid, false, true,
    )).data);

  async function catalog() {
    assert.equal((await catalogs.uploadCatalogXml(CATALOG, BY)).status, 201);
    const [version] = shaped('Array<Catalog>', (await catalogs.getCatalogJson()).data);
    assert.deepEqual(version.products.map((it) => it.name).sort(), ['Extra', 'Large', 'Small']);
    const plans = shaped('Array<PlanDetail>', (await catalogs.getAvailableBasePlans()).data);
    assert.deepEqual(plans.map((it) => it.plan).sort(), ['large', 'small']);
    const addOns = shaped('Array<PlanDetail>', (await catalogs.getAvailableAddons('Small')).data);
    assert.deepEqual(addOns.map((it) => it.plan), ['extra']);
    assert.equal((await catalogs.getCatalogVersions()).data.length, 1);
    await refused(400, 2080, () => catalogs.uploadCatalogXml('<catalog/>', BY));
  }

  async function subscribe() {
    account = (await accounts.createAccount({ name: 'Ada', currency: 'USD', timeZone: 'UTC' }, BY)).data;
    const method = { pluginName: '__EXTERNAL_PAYMENT__', pluginInfo: {} };
    await accounts.createPaymentMethod(method, account.accountId, BY, true);
    const keys = { externalKey: `sub-${run}`, bundleExternalKey: `bundle-${run}` };
    const wanted = { accountId: account.accountId, planName: 'small', ...keys };
    base = shaped('Subscription', (await subscriptions.createSubscription(wanted, BY)).data);
    assert.deepEqual([base.state, base.phaseType, base.planName], ['ACTIVE', 'TRIAL', 'small']);
    assert.deepEqual(base.events.map((it) => it.eventType), ['START_ENTITLEMENT', 'START_BILLING', 'PHASE']);
    assert.equal((await subscriptions.getSubscriptionByKey(`sub-${run}`)).data.subscriptionId, base.subscriptionId);
    await refused(400, 1014, () => subscriptions.createSubscription({ ...wanted, externalKey: undefined }, BY));
    const second = { accountId: account.accountId, planName: 'large', bundleId: base.bundleId };
    await refused(400, 1015, () => subscriptions.createSubscription(second, BY));
    await refused(400, 2021, () => subscriptions.createSubscription({ ...wanted, planName: 'none' }, BY));
    const of = { accountId: account.accountId, bundleId: base.bundleId };
    const addOn = { ...of, planName: 'extra', productCategory: 'ADD_ON' };
    const added = (await subscriptions.createSubscription(addOn, BY)).data;
    assert.deepEqual([added.productCategory, added.bundleId], ['ADD_ON', base.bundleId]);
  }

  async function bill() {
    await clock(31);
    const found = await listed(false);
    assert.ok(found.every((it) => it.balance === 0), JSON.stringify(found.map((it) => it.balance)));
    const items = found.flatMap((it) => it.items.map((item) => `${item.itemType} ${item.planName} ${item.amount}`));
    for (const one of ['FIXED small 0', 'RECURRING small 10', 'RECURRING extra 3']) {
      assert.ok(items.includes(one), `${one}: ${items}`);
    }
    const paid = shaped('Array<InvoicePayment>', (await accounts.getInvoicePayments(account.accountId)).data);
    assert.ok(paid.length >= 2, JSON.stringify(paid));
    assert.ok(paid.every((it) => it.transactions[0].status === 'SUCCESS'), JSON.stringify(paid));
    const last = found[found.length - 1];
    const of = shaped('Array<InvoicePayment>', (await invoices.getPaymentsForInvoice(last.invoiceId)).data);
    assert.deepEqual(of.map((it) => it.targetInvoiceId), [last.invoiceId]);
    assert.equal((await invoices.getInvoiceByNumber(Number(last.invoiceNumber))).data.invoiceId, last.invoiceId);
    assert.equal((await read()).phaseType, 'EVERGREEN');
  }

  async function change() {
    const to = { planName: 'large' };
    const how = [undefined, true, 5, 'IMMEDIATE'];
    const changed = await subscriptions.changeSubscriptionPlan(to, base.subscriptionId, BY, ...how);
    assert.equal(changed.status, 204);
    assert.equal((await read()).planName, 'large');
    const last = (await listed(false)).pop();
    assert.deepEqual(last.items.map((it) => it.itemType).sort(), ['RECURRING', 'REPAIR_ADJ']);
    const unknown = '00000000-0000-0000-0000-00000000abcd';
    await refused(404, null, () => subscriptions.changeSubscriptionPlan(to, unknown, BY));
  }

  async function dryRun() {
    const before = (await listed(false)).length;
    const target = (await read()).chargedThroughDate;
    const upcoming = await invoices.generateDryRunInvoice({ dryRunType: 'UPCOMING_INVOICE' }, account.accountId, BY);
    const shown = shaped('Invoice', upcoming.data);
    assert.equal(shown.items.find((it) => it.planName === 'large').startDate, target);
    const past = { dryRunType: 'TARGET_DATE' };
    const none = await invoices.generateDryRunInvoice(past, account.accountId, BY, '2020-02-01');
    assert.equal(none.status, 204);
    assert.equal((await listed(false)).length, before);
  }

  async function external() {
    const tag = ['00000000-0000-0000-0000-000000000001'];
    await accounts.createAccountTags(tag, account.accountId, BY);
    const charge = [{ accountId: account.accountId, amount: 7.5, currency: 'USD', description: 'set-up' }];
    const charged = (await invoices.createExternalCharges(charge, account.accountId, BY, undefined, true)).data;
    const [unpaid] = await listed(true);
    assert.deepEqual([unpaid.invoiceId, unpaid.balance], [charged[0].invoiceId, 7.5]);
    const body = { accountId: account.accountId, targetInvoiceId: unpaid.invoiceId, purchasedAmount: 7.5 };
    const tooMuch = { ...body, purchasedAmount: 8 };
    await refused(400, null, () => invoices.createInstantPayment(tooMuch, unpaid.invoiceId, BY, true));
    const paid = shaped('InvoicePayment', (await invoices.createInstantPayment(body, unpaid.invoiceId, BY, true)).data);
    assert.deepEqual([paid.targetInvoiceId, paid.purchasedAmount], [unpaid.invoiceId, 7.5]);
    assert.deepEqual(await listed(true), []);
    const again = (await invoicePayments.getInvoicePayment(paid.paymentId)).data;
    assert.equal(shaped('InvoicePayment', again).paymentId, paid.paymentId);
    const credit = [{ accountId: account.accountId, amount: 2, currency: 'USD' }];
    shaped('Array<InvoiceItem>', (await credits.createCredits(credit, BY, true)).data);
    const owed = shaped('Account', (await accounts.getAccount(account.accountId, true, true)).data);
    assert.deepEqual([owed.accountBalance, owed.accountCBA], [-2, 2]);
  }

  async function ofBundles() {
    const [found] = shaped('Array<Bundle>', (await accounts.getAccountBundles(account.accountId)).data);
    assert.equal(found.externalKey, `bundle-${run}`);
    assert.equal(found.subscriptions.length, 2);
    assert.equal((await bundles.getBundleByKey(`bundle-${run}`)).data[0].bundleId, found.bundleId);
    // Without a body axios sends the type of forms, which Kill Bill does not take here.
    const options = { headers: { 'Content-Type': 'application/json' } };
    await bundles.pauseBundle(found.bundleId, BY, undefined, undefined, undefined, undefined, options);
    assert.equal((await read()).state, 'BLOCKED');
    await bundles.resumeBundle(found.bundleId, BY, undefined, undefined, undefined, undefined, options);
    const shown = shaped('Bundle', (await bundles.getBundle(found.bundleId)).data);
    assert.ok(shown.timeline.events.some((it) => it.eventType === 'PAUSE_ENTITLEMENT'), JSON.stringify(shown.timeline));
    const timeline = shaped('AccountTimeline', (await accounts.getAccountTimeline(account.accountId)).data);
    assert.ok(timeline.bundles.length === 1 && timeline.invoices.length > 2 && timeline.payments.length > 2);
  }

  async function cancel() {
    const end = [undefined, true, 5, 'END_OF_TERM', 'END_OF_TERM'];
    await subscriptions.cancelSubscriptionPlan(base.subscriptionId, BY, ...end);
    const waiting = await read();
    assert.equal(waiting.state, 'ACTIVE');
    assert.equal(waiting.billingEndDate.slice(0, 10), waiting.chargedThroughDate);
    await subscriptions.uncancelSubscriptionPlan(base.subscriptionId, BY);
    assert.equal((await read()).billingEndDate, null);
    await refused(400, 1070, () => subscriptions.uncancelSubscriptionPlan(base.subscriptionId, BY));
    await subscriptions.cancelSubscriptionPlan(base.subscriptionId, BY, undefined, true, 5, 'IMMEDIATE', 'IMMEDIATE');
    assert.equal((await read()).state, 'CANCELLED');
    await refused(400, 1031, () => subscriptions.cancelSubscriptionPlan(base.subscriptionId, BY));
  }

  return [
    ['a catalog is uploaded and listed', catalog],
    ['an account subscribes, with an add-on', subscribe],
    ['a month is billed and paid', bill],
    ['a plan is changed, and the difference invoiced', change],
    ['an invoice is shown before there is one', dryRun],
    ['an invoice is paid externally, and a credit given', external],
    ['a bundle pauses and goes on', ofBundles],
    ['a subscription is cancelled', cancel],
  ];
};

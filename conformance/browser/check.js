// A customer's browser, a headless Chromium, on the simulated gateway's pages: a card is entered, a challenge is passed,
// failed and left alone, and the merchant's page finds the outcome.
//
//   node conformance/browser/check.js URL CHROMIUM
"use strict";

const assert = require("node:assert");
const http = require("node:http");
const puppeteer = require("puppeteer-core");

const [url, executablePath] = process.argv.slice(2);
const kb = `${url}/1.0/kb`;
const CREDENTIALS = {
  "Authorization": `Basic ${Buffer.from("admin:password").toString("base64")}`,
  "X-Killbill-ApiKey": "browser",
  "X-Killbill-ApiSecret": "secret",
  "X-Killbill-CreatedBy": "conformance",
};

async function ask(method, path, body) {
  const headers = { ...CREDENTIALS, "Content-Type": "application/json" };
  const answer = await fetch(kb + path, { method, headers, body: body && JSON.stringify(body), redirect: "manual" });
  const text = await answer.text();
  assert.ok(answer.status < 400, `${method} ${path}: ${answer.status} ${text}`);
  return { location: answer.headers.get("location"), json: text ? JSON.parse(text) : null };
}

const made = async (path, body) => (await ask("POST", path, body)).location.split("/").filter(Boolean).at(-1);

async function transaction(payment) {
  const { json } = await ask("GET", `/payments/${payment}?withPluginInfo=true`);
  return json.transactions.at(-1);
}

/** The merchant's pages: they show where the browser came to. */
async function shop() {
  const server = http.createServer((request, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(`<title>The shop</title><p id=referer>${request.headers.referer ?? "none"}</p>`);
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", listens));
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}

async function press(browser, page, button) {
  const tab = await browser.newPage();
  const failed = [];
  tab.on("pageerror", (error) => failed.push(error.message));
  tab.on("console", (message) => message.type() === "error" && failed.push(message.text()));
  await tab.goto(page);
  await Promise.all([tab.waitForNavigation(), tab.click(`button[value="${button}"]`)]);
  const shown = { url: tab.url(), title: await tab.title(), text: await tab.$eval("body", (it) => it.innerText) };
  // Chromium asks the shop for an icon, which is no page of ours.
  const errors = failed.filter((it) => !it.includes("favicon"));
  assert.deepStrictEqual(errors, []);
  await tab.close();
  return shown;
}

const CHECKS = {
  async "a card is entered, and its challenge passed"(browser, merchant) {
    const account = await made("/accounts", { currency: "EUR" });
    const fields = [{ key: "successUrl", value: `${merchant}/card` }];
    const path = `/paymentGateways/hosted/form/${account}?pluginName=faregate-simulator`;
    const { json: form } = await ask("POST", path, { formFields: fields });
    const entered = new URL((await press(browser, form.formUrl, "challenged")).url);
    assert.strictEqual(entered.origin + entered.pathname, `${merchant}/card`);
    const externalPaymentMethodId = entered.searchParams.get("externalPaymentMethodId");
    await made(`/accounts/${account}/paymentMethods?isDefault=true`,
      { pluginName: "faregate-simulator", pluginInfo: { externalPaymentMethodId } });
    const payment = await made(`/accounts/${account}/payments`, { transactionType: "PURCHASE", amount: 12.5 });
    const waiting = await transaction(payment);
    assert.strictEqual(waiting.status, "PENDING");
    const shown = await press(browser, waiting.properties[0].value, "pass");
    assert.strictEqual(shown.title, "Done");
    assert.strictEqual((await transaction(payment)).status, "SUCCESS");
  },

  async "a challenge is passed, failed and left alone"(browser, merchant) {
    const account = await made("/accounts", { currency: "EUR" });
    await made(`/accounts/${account}/paymentMethods?isDefault=true`, { pluginName: "faregate-simulator" });
    for (const [button, status] of [["pass", "SUCCESS"], ["fail", "PAYMENT_FAILURE"], [null, "PENDING"]]) {
      const properties = ["challenge=true", `returnUrl=${merchant}/done?order=7`];
      const query = properties.map((it) => `pluginProperty=${encodeURIComponent(it)}`).join("&");
      const payment = await made(`/accounts/${account}/payments?${query}`, { transactionType: "PURCHASE", amount: 10 });
      const page = (await transaction(payment)).properties[0].value;
      if (button) {
        const shown = await press(browser, page, button);
        assert.strictEqual(shown.url, `${merchant}/done?order=7`);
        assert.strictEqual(shown.text.trim(), "none", "the page's address is not passed on");
      } else {
        const tab = await browser.newPage();
        await tab.goto(page);
        assert.match(await tab.$eval("body", (it) => it.innerText), /Do you pay 10\.00 EUR\?/);
        await tab.close();
      }
      assert.strictEqual((await transaction(payment)).status, status);
    }
  },
};

async function main() {
  await ask("POST", "/tenants", { apiKey: "browser", apiSecret: "secret" });
  const merchant = await shop();
  // Root has no sandbox of its own.
  const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  let [passed, failed] = [0, 0];
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      await check(browser, merchant.url);
      passed += 1;
    } catch (error) {
      failed += 1;
      console.log(`FAILED ${name}: ${error.message}`);
    }
  }
  await browser.close();
  merchant.server.close();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main().catch((error) => {
  console.log(`FAILED ${error.stack}`);
  process.exitCode = 1;
});

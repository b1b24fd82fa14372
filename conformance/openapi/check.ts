// The three tutorials, by a client whose types are made from /openapi.json: it has to compile in strict
// mode, and every answer has to be the one that the document promises.
// Arguments: the server's URL, and the directory into which it writes mails.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

const [url, mails] = process.argv.slice(2) as [string, string];
const name = `generated-${Date.now().toString(36)}`;
const operator = { Authorization: `Basic ${Buffer.from("admin:password").toString("base64")}` };

let passed = 0;
let failed = 0;
function check(what: string, holds: boolean, found?: unknown) {
  if (holds) passed += 1;
  else {
    failed += 1;
    console.log(`FAILED ${what}: ${JSON.stringify(found)}`);
  }
}

const created = (response: Response) => (response.headers.get("location") ?? "").replace(/\/$/, "").split("/").pop() ?? "";

async function tenant() {
  const installation = createClient<paths>({ baseUrl: url, headers: operator });
  const made = await installation.POST("/v1/tenants", { body: { apiKey: name } });
  check("a tenant is created", made.response.status === 201, made.error);
  const secret = made.data?.apiSecret ?? "";
  check("its secret is shown", secret.length >= 32, made.data);
  const again = await installation.POST("/v1/tenants", { body: { apiKey: name } });
  check("a second one of its key is a problem", again.error?.status === 409, again.error);
  return { "X-Killbill-ApiKey": name, "X-Killbill-ApiSecret": secret };
}

type Client = ReturnType<typeof createClient<paths>>;

async function firstPayment(client: Client) {
  const header = { "X-Killbill-CreatedBy": "generated" };
  const account = await client.POST("/1.0/kb/accounts", {
    params: { header },
    body: { name: "Ada", email: "ada@example.com", currency: "EUR" },
  });
  check("an account is created", account.response.status === 201, account.error);
  const accountId = created(account.response);
  const method = await client.POST("/1.0/kb/accounts/{accountId}/paymentMethods", {
    params: { header, path: { accountId }, query: { isDefault: true } },
    body: { pluginName: "__EXTERNAL_PAYMENT__" },
  });
  check("a payment method is created", method.response.status === 201, method.error);
  const authorized = await client.POST("/1.0/kb/accounts/{accountId}/payments", {
    params: { header: { ...header, "Idempotency-Key": name }, path: { accountId } },
    body: { transactionType: "AUTHORIZE", amount: 100, paymentExternalKey: name },
  });
  check("a payment is authorized", authorized.response.status === 201, authorized.error);
  const paymentId = created(authorized.response);
  const path = { paymentId };
  const captured = await client.POST("/1.0/kb/payments/{paymentId}", { params: { header, path }, body: { amount: 60 } });
  check("it is captured", captured.response.status === 201, captured.error);
  const refunded = await client.POST("/1.0/kb/payments/{paymentId}/refunds", { params: { header, path }, body: { amount: 15 } });
  check("it is refunded", refunded.response.status === 201, refunded.error);
  const above = await client.POST("/1.0/kb/payments/{paymentId}/refunds", { params: { header, path }, body: { amount: 50 } });
  check("no more than is left", above.error?.code === 7031, above.error);
  const read = await client.GET("/1.0/kb/payments/{paymentId}", { params: { path } });
  const amounts: (number | undefined)[] = [read.data?.authAmount, read.data?.capturedAmount, read.data?.refundedAmount];
  check("its amounts are numbers", amounts.join() === "100,60,15", read.data);
  const entries = await client.GET("/v1/ledger/entries", { params: { query: { payment: paymentId } } });
  check("the ledger has both postings", entries.data?.entries.length === 2, entries.error ?? entries.data);
}

async function firstFlag(client: Client) {
  const key = "new-checkout";
  const query = { environment: "dev" };
  const flag = await client.POST("/v1/flags", {
    params: { query },
    body: {
      key,
      variationType: "boolean",
      variations: [{ id: "on", value: "true" }, { id: "off", value: "false" }],
      disabledVariationId: "off",
      fallthrough: { variations: [{ id: "on", rollout: [0, 1] }] },
    },
  });
  check("a flag is created, off", flag.data?.isEnabled === false, flag.error);
  const version = flag.response.headers.get("etag") ?? "";
  const rolledOut = await client.PATCH("/v1/flags/{key}", {
    params: { query, path: { key }, header: { "If-Match": version } },
    body: {
      isEnabled: true,
      fallthrough: { variations: [{ id: "on", rollout: [0, 0.1] }, { id: "off", rollout: [0.1, 1] }] },
    },
  });
  check("it is rolled out", rolledOut.data?.isEnabled === true, rolledOut.error);
  const explained = await client.POST("/v1/flags/{key}/explain", { params: { query, path: { key } }, body: { keyId: "ann" } });
  check("it is explained", explained.data?.key === key, explained.error);
  const { id: _, ...copy } = flag.data!;
  const wrong = await client.POST("/v1/flags", { params: { query }, body: { ...copy, key: "other", disabledVariationId: "none" } });
  check("a wrong field is named", wrong.error?.problems?.[0]?.field === "disabledVariationId", wrong.error);
  const environments = await client.GET("/v1/environments");
  const secrets = environments.data?.find((it) => it.key === "dev")?.secrets ?? [];
  const sdk = createClient<paths>({ baseUrl: url, headers: { "X-API-Key": secrets[0]?.value ?? "" } });
  const value = await sdk.POST("/ofrep/v1/evaluate/flags/{key}", {
    params: { path: { key } },
    body: { context: { targetingKey: "ann", plan: "gold" } },
  });
  check("OpenFeature's protocol has its value", typeof value.data?.value === "boolean", value.error ?? value.data);
}

async function firstSignUp(client: Client, ofTenant: Record<string, string>) {
  const email = `${name}@example.com`;
  const password = "Correct-Horse-7";
  const registered = await client.POST("/v1/registrations", {
    body: { email, password, firstName: "Ada", lastName: "Lovelace", acceptTerms: true },
  });
  check("a customer registers", registered.data?.status === "verification-sent", registered.error);
  const token = await mailedToken(email);
  const page = await fetch(`${url}/verify-email?token=${token}`);
  check("the link in the mail has a page", page.status === 200 && (await page.text()).includes("<button>"));
  const verified = await client.POST("/v1/registrations/verify", { body: { token } });
  check("the address is verified", verified.response.status === 204, verified.error);
  const session = await client.POST("/v1/sessions", { body: { email, password } });
  check("the customer logs in", session.response.status === 201, session.error);
  const customer = createClient<paths>({ baseUrl: url, headers: { ...ofTenant, Authorization: `Bearer ${session.data?.accessToken}` } });
  const me = await customer.GET("/v1/me");
  check("and sees themselves", me.data?.email === email, me.error);
}

/** The token of the mail to an address; mails are sent within moments. */
async function mailedToken(email: string) {
  for (let left = 100; left > 0; left -= 1) {
    for (const file of existsSync(mails) ? readdirSync(mails) : []) {
      const text = readFileSync(join(mails, file), "utf8").replaceAll("=\r\n", "").replaceAll("=3D", "=");
      const token = /verify-email\?token=([\w.~-]+)/.exec(text)?.[1];
      if (token && text.includes(email)) return token;
    }
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("no mail came");
}

const ofTenant = await tenant();
const client = createClient<paths>({ baseUrl: url, headers: { ...operator, ...ofTenant } });
await firstPayment(client);
await firstFlag(client);
await firstSignUp(client, ofTenant);
console.log(`${passed} passed, ${failed} failed`);

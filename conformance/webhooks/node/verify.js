// Says whether npm's standardwebhooks verifies the delivery on stdin: {secret, headers, body}.

const { Webhook, WebhookVerificationError } = require("standardwebhooks");

const { secret, headers, body } = JSON.parse(require("fs").readFileSync(0, "utf8"));
try {
  new Webhook(secret).verify(body, headers);
  console.log("yes");
} catch (error) {
  if (!(error instanceof WebhookVerificationError)) throw error;
  console.log("no");
}

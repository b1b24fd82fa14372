// Signs standard input as Stripe's SDK for Node signs events in tests: `node sign.js SECRET` prints the header.
const fs = require('node:fs');
const Stripe = require('stripe');

const payload = fs.readFileSync(0, 'utf8');
const stripe = new Stripe('sk_test_node');
console.log(stripe.webhooks.generateTestHeaderString({ payload, secret: process.argv[2] }));

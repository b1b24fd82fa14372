// Compares answers with the types of the npm client: each field is one of the type's, none that the type requires is
// missing, and texts of an enum are among its values.
const fs = require('node:fs');
const path = require('node:path');

const text = fs.readFileSync(path.join(path.dirname(require.resolve('killbill')), 'api.d.ts'), 'utf8');
const PLAIN = { string: 'string', number: 'number', boolean: 'boolean', object: 'object' };

const enums = new Map();
for (const [, name, body] of text.matchAll(/^export declare const (\w+): \{\n([^}]*)\};/gm)) {
  enums.set(name, [...body.matchAll(/: "([^"]*)"/g)].map((it) => it[1]));
}
const types = new Map();
for (const [, name, body] of text.matchAll(/^export interface (\w+) \{\n([\s\S]*?)^\}/gm)) {
  const fields = [...body.matchAll(/^ {4}'(\w+)'(\??): (.*);$/gm)];
  types.set(name, new Map(fields.map(([, field, optional, kind]) => [field, { kind, isOptional: optional === '?' }])));
}

function wrong(kind, value, at) {
  const list = kind.match(/^Array<(.*)>$/);
  if (list) {
    if (!Array.isArray(value)) return [`${at}: no list, but ${JSON.stringify(value)}`];
    return value.flatMap((it, index) => wrong(list[1], it, `${at}[${index}]`));
  }
  if (PLAIN[kind]) return typeof value === PLAIN[kind] ? [] : [`${at}: no ${kind}, but ${JSON.stringify(value)}`];
  if (enums.has(kind)) return enums.get(kind).includes(value) ? [] : [`${at}: ${value} is no ${kind}`];
  const type = types.get(kind);
  if (!type) return [];
  const found = Object.keys(value).filter((it) => !type.has(it)).map((it) => `${at}.${it}: ${kind} has no such field`);
  for (const [field, { kind: of, isOptional }] of type) {
    const inner = value[field];
    if (inner !== undefined && inner !== null) found.push(...wrong(of, inner, `${at}.${field}`));
    else if (!isOptional || inner === undefined) found.push(`${at}.${field}: missing`);
  }
  return found;
}

/** Fails with all that is another way than the client's type, or list of it, has it. */
exports.shaped = (kind, value) => {
  if (!types.has(kind.replace(/^Array<(.*)>$/, '$1'))) throw new Error(`the client has no type ${kind}`);
  const found = wrong(kind, value, kind);
  if (found.length > 0) throw new Error(found.slice(0, 10).join('; '));
  return value;
};

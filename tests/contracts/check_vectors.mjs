// Recomputes the published vectors of contracts/vectors in another language, from the rules as they are written
// down in contracts/canonical_v1.toml. Prints one line; exits 1 when a vector differs.
import { createHash, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const here = process.argv[2]
  ? pathToFileURL(process.argv[2] + "/") : new URL("../../contracts/", import.meta.url);
const text = (name) => readFileSync(new URL(name, here), "utf8");

// --- JSON with exact numbers: an integer is a BigInt, what no double holds keeps its text ---
class Big { constructor(source) { this.source = source; } }

function parse(source) {
  let at = 0;
  const blank = () => { while (" \t\n\r".includes(source[at]) && at < source.length) at++; };
  const string = () => {
    const start = at++;
    while (source[at] !== '"') at += source[at] === "\\" ? 2 : 1;
    return JSON.parse(source.slice(start, ++at));
  };
  const value = () => {
    blank();
    const c = source[at];
    if (c === '"') return string();
    if (c === "{" || c === "[") {
      const close = c === "{" ? "}" : "]";
      const object = new Map(), array = [];
      at++;
      for (blank(); source[at] !== close; blank()) {
        if (source[at] === ",") at++;
        if (c === "[") { array.push(value()); continue; }
        blank();
        const name = string();
        blank();
        at++;
        object.set(name, value());
      }
      at++;
      return c === "{" ? object : array;
    }
    const [token] = /^[-+.\w]+/.exec(source.slice(at));
    at += token.length;
    if (token in { true: 1, false: 1, null: 1 }) return JSON.parse(token);
    if (/^-?\d+$/.test(token)) return BigInt(token);
    const number = Number(token);
    if (/^-?\d/.test(token) && !Number.isFinite(number)) return new Big(token);
    return number;
  };
  return value();
}

// --- the closed lists ---
function toml(source) {
  const root = {};
  let table = root, pending = "";
  const keys = (path) => path.match(/"[^"]*"|[^.\s]+/g).map((key) => key.replaceAll('"', ""));
  for (const line of source.split("\n")) {
    const bare = line.trim();
    if (pending === "" && (bare === "" || bare.startsWith("#"))) continue;
    if (pending === "" && /^\[.*\]$/.test(bare)) {
      table = root;
      for (const key of keys(bare.slice(1, -1))) table = table[key] ??= {};
      continue;
    }
    pending += bare;
    const [, key, value] = /^("[^"]*"|[\w.]+)\s*=\s*(.*)$/s.exec(pending);
    if (value.startsWith("[") && !value.endsWith("]")) continue;
    table[key.replaceAll('"', "")] = JSON.parse(value.replace(/,\s*\]$/, "]"));
    pending = "";
  }
  return root;
}

const lists = toml(text("canonical_v1.toml"));
const stubs = text("stub_types.txt").trim().split("\n");
const enums = new Map(Object.entries(lists.enums).map(([field, table]) =>
  [field, new Map(Object.entries(table).map(([name, number]) => [BigInt(number), name]))]));
enums.set("messageStubType", new Map(stubs.map((name, number) => [BigInt(number), name])));

// --- one spelling ---
const points = (one, other) => {
  const a = [...one], b = [...other];
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    if (a[i] !== b[i]) return a[i].codePointAt(0) - b[i].codePointAt(0);
  }
  return a.length - b.length;
};

function float(number) {
  const [digits, exponent] = number.toExponential().replace("-", (sign, i) => (i === 0 ? "" : sign)).split("e");
  const sign = number < 0 ? "-" : "";
  const power = Number(exponent);
  if (power >= -4 && power < 16) {
    const fixed = Math.abs(number).toString();
    if (!fixed.includes("e")) return sign + fixed;
    return sign + "0." + "0".repeat(-power - 1) + digits.replace(".", "");
  }
  return `${sign}${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

function write(value) {
  if (typeof value === "bigint") return value.toString();
  if (typeof value === "number") return float(value);
  if (Array.isArray(value)) return "[" + value.map(write).join(",") + "]";
  if (value instanceof Map) {
    const names = [...value.keys()].sort(points);
    return "{" + names.map((name) => JSON.stringify(name) + ":" + write(value.get(name))).join(",") + "}";
  }
  return JSON.stringify(value);
}

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

// --- the rules ---
function canonical(kind, element) {
  const names = new Set(), pairs = new Set(), paths = new Set();
  for (const path of [...lists.secret, ...(lists.volatile[kind] ?? [])]) {
    const steps = path.split(".");
    if (steps[0] !== "**") paths.add(path);
    else if (steps.length === 2) names.add(steps[1]);
    else pairs.add(steps.slice(1).join("."));
  }
  const has = (list, name) => lists[list].includes(name);

  const small = (items) => items.every((item) => typeof item === "bigint" && item >= 0n && item <= 255n)
    ? Buffer.from(items.map(Number)) : null;
  const base64 = (value) => /^[A-Za-z0-9+/_-]*={0,2}$/.test(value) && value.replace(/=+$/, "").length % 4 !== 1
    ? Buffer.from(value, "base64") : null;
  const fieldBytes = (value) => typeof value === "string" ? base64(value) : Array.isArray(value) ? small(value) : null;
  const objectBytes = (value) => {
    if (value.size === 2 && value.get("type") === "Buffer" && value.has("data")) return fieldBytes(value.get("data"));
    if (!value.has("0")) return null;
    return small([...Array(value.size).keys()].map((index) => value.get(String(index))));
  };
  const bytes = (data) => data.length ? "sha256:" + sha256(data) : "";

  const integer = (value, parent, name) => {
    const table = enums.get(`${parent}.${name}`) ?? enums.get(name);
    if (table) return table.get(value) ?? value;
    return has("second_fields", name) && value > 100000000000n ? value / 1000n : value;
  };
  const long = (value) => {
    const low = value.get("low"), high = value.get("high");
    const known = [...value.keys()].every((key) => ["low", "high", "unsigned"].includes(key));
    if (!known || typeof low !== "bigint" || typeof high !== "bigint") return null;
    const number = (BigInt.asUintN(32, high) << 32n) | BigInt.asUintN(32, low);
    return value.get("unsigned") === true ? number : BigInt.asIntN(64, number);
  };
  const empty = (value) => value === null || value === "" || (Array.isArray(value) && !value.length) ||
    (value instanceof Map && !value.size);
  const servers = { "s.whatsapp.net": "s.whatsapp.net", "c.us": "s.whatsapp.net", hosted: "s.whatsapp.net",
    lid: "lid", "hosted.lid": "lid" };
  const ownId = (item) => {
    const own = item instanceof Map ? item.get("id") ?? item.get("jid") ?? "" : item;
    if (typeof own !== "string") return "";
    const [, user, server] = /^([^@:._]+)[^@]*@([^@]+)$/.exec(own) ?? [];
    return server in servers ? `${user}@${servers[server]}` : own;
  };

  const form = (value, parent, name, path) => {
    const here = (step) => (path === "" ? step : `${path}.${step}`);
    if (value instanceof Map) {
      const data = objectBytes(value);
      if (data) return bytes(data);
      const number = long(value);
      if (number !== null) return integer(number, "", name);
      const members = new Map();
      for (const member of [...value.keys()].sort(points)) {
        if (paths.has(here(member)) || names.has(member) || pairs.has(`${name}.${member}`)) continue;
        const item = form(value.get(member), name, member, here(member));
        if (!empty(item)) members.set(member.normalize("NFC"), item);
      }
      return members;
    }
    if (Array.isArray(value)) {
      const data = value.length && has("byte_fields", name) ? fieldBytes(value) : null;
      if (data) return bytes(data);
      const items = value.map((item) => form(item, parent, name, here("*")));
      if (has("set_fields", name)) {
        items.sort((one, other) => points(ownId(one), ownId(other)) || points(write(one), write(other)));
      }
      return items;
    }
    if (typeof value === "string") {
      const data = has("byte_fields", name) ? fieldBytes(value) : null;
      if (data) return bytes(data);
      if (has("integer_fields", name) && /^-?\d{1,20}$/.test(value)) return integer(BigInt(value), parent, name);
      const link = lists.link_kinds.includes(kind) && lists.link_suffixes.some((end) => name.endsWith(end));
      return (link ? value.split("?")[0] : value).normalize("NFC");
    }
    if (value instanceof Big) return new Map([["$number", value.source]]);
    if (typeof value === "bigint") return integer(value, parent, name);
    if (typeof value !== "number") return value;
    if (Number.isInteger(value)) return integer(BigInt(value), parent, name);
    return Number.isFinite(value) ? value : new Map([["$number", String(value)]]);
  };
  return form(element, "", "", "");
}

// --- identity and signatures ---
function uuid5(name) {
  const namespace = Buffer.from("d0108709ef1153c78e689953e8afdb48", "hex");
  const hash = createHash("sha1").update(namespace).update(name, "utf8").digest().subarray(0, 16);
  hash[6] = (hash[6] & 0x0f) | 0x50;
  hash[8] = (hash[8] & 0x3f) | 0x80;
  return hash.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const wrong = [];
let checked = 0;
const expect = (name, ours, published) => {
  checked++;
  if (ours !== published) wrong.push(`${name}: ${ours} is not ${published}`);
};
for (const vector of JSON.parse(text("vectors/canonical.json")).vectors) {
  const ours = write(canonical(vector.kind, parse(vector.element)));
  expect(vector.name, ours, vector.canonical);
  expect(vector.name, sha256(Buffer.from(ours, "utf8")), vector.sha256);
}
for (const vector of JSON.parse(text("vectors/identity.json")).vectors) {
  expect(vector.name, uuid5(JSON.stringify(vector.json)), vector.event_id);
}
for (const vector of JSON.parse(text("vectors/signing.json")).vectors) {
  const body = Buffer.from(vector.body_base64, "base64");
  const signature = createHmac("sha256", vector.secret).update(`${vector.event_id}.`).update(body).digest("hex");
  expect(vector.name, signature, vector.signature);
}
for (const vector of JSON.parse(text("vectors/blobs.json")).vectors) {
  const part = vector.method === "HEAD" ? "" : sha256(Buffer.from(vector.part_base64, "base64"));
  const signed = [vector.method, vector.sha256, vector.content_range, vector.content_type, part].join("\n");
  expect(vector.name, uuid5(JSON.stringify(["blob", vector.sha256])), vector.event_id);
  const signature = createHmac("sha256", vector.secret).update(`${vector.event_id}.${signed}`, "latin1").digest("hex");
  expect(vector.name, signature, vector.signature);
}
if (checked < 80) wrong.push(`only ${checked} values checked`);
console.log(wrong.length ? wrong.join("\n") : `${checked} published values are right`);
process.exitCode = wrong.length ? 1 : 0;

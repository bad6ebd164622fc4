// A stand-in for the azurerm provider: it knows the provider's schema from the kept facts, accepts
// every configuration that fits it, and plans all that Azure would say as unknown.
//
// Terraform connects to it by TF_REATTACH_PROVIDERS, in version 5 of its protocol: gRPC is HTTP/2,
// which Node.js has, with messages of protobuf, of which a few lines are enough here.
// Source: hashicorp/terraform, docs/plugin-protocol/tfplugin5.proto.
"use strict";
const fs = require("fs");
const http2 = require("http2");

const facts = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const NESTING = { single: 1, list: 2, set: 3 };

function varint(number) {
  const bytes = [];
  for (; number > 127; number = Math.floor(number / 128)) bytes.push((number % 128) | 128);
  return Buffer.from([...bytes, number]);
}
const flag = (field, value) => Buffer.concat([varint(field * 8), varint(Number(value))]);
function bytes(field, value) {
  const content = Buffer.from(value);
  return Buffer.concat([varint(field * 8 + 2), varint(content.length), content]);
}

function block(body) {
  const attributes = Object.entries(body.attributes).map(([name, [type, ...flags]]) =>
    bytes(2, Buffer.concat([
      bytes(1, name),
      bytes(2, JSON.stringify(type)),
      ...["required", "optional", "computed"].map((each, i) => flag(4 + i, flags.includes(each))),
      flag(10, flags.includes("write_only")),
    ])));
  const blocks = Object.entries(body.blocks ?? {}).map(([name, inner]) =>
    bytes(3, Buffer.concat([
      bytes(1, name),
      bytes(2, block(inner)),
      flag(3, NESTING[inner.nesting]),
      flag(4, inner.min_items ?? 0),
      flag(5, inner.max_items ?? 0),
    ])));
  return Buffer.concat([...attributes, ...blocks]);
}
const schema = (body) => bytes(2, block(body));
const named = (field, bodies) => Object.entries(bodies).map(([name, body]) =>
  bytes(field, Buffer.concat([bytes(1, name), bytes(2, schema(body))])));

/** The fields of a message, by number, all of which are of bytes here or not asked for. */
function fields(message) {
  const found = {};
  let position = 0;
  const number = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message[position++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (position < message.length) {
    const tag = number();
    const length = number();
    if (tag % 8 !== 2) continue;
    found[tag >> 3] = message.subarray(position, position + length);
    position += length;
  }
  return found;
}

/** The place behind the value of MessagePack at a position. */
function behind(data, at) {
  const kind = data[at];
  const values = (count, from) => {
    for (let i = 0; i < count; i++) from = behind(data, from);
    return from;
  };
  if (kind < 0x80 || kind >= 0xe0 || [0xc0, 0xc2, 0xc3].includes(kind)) return at + 1;
  if (kind < 0x90) return values(2 * (kind & 15), at + 1);
  if (kind < 0xa0) return values(kind & 15, at + 1);
  if (kind < 0xc0) return at + 1 + (kind & 31);
  switch (kind) {
    case 0xc4: case 0xd9: return at + 2 + data[at + 1];
    case 0xc5: case 0xda: return at + 3 + data.readUInt16BE(at + 1);
    case 0xc6: case 0xdb: return at + 5 + data.readUInt32BE(at + 1);
    case 0xc7: return at + 3 + data[at + 1];
    case 0xca: case 0xce: case 0xd2: return at + 5;
    case 0xcb: case 0xcf: case 0xd3: return at + 9;
    case 0xcc: case 0xd0: return at + 2;
    case 0xcd: case 0xd1: return at + 3;
    case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return at + 2 + (1 << (kind - 0xd4));
    case 0xdc: return values(data.readUInt16BE(at + 1), at + 3);
    case 0xde: return values(2 * data.readUInt16BE(at + 1), at + 3);
  }
  throw new Error(`MessagePack 0x${kind.toString(16)}`);
}

/** An object of MessagePack with the computed attributes that are null as `made` has them. */
function completed(data, body, made) {
  const long = data[0] === 0xde;
  let position = long ? 3 : 1;
  const count = long ? data.readUInt16BE(1) : data[0] & 15;
  const parts = [data.subarray(0, position)];
  for (let i = 0; i < count; i++) {
    const value = behind(data, position);
    const end = behind(data, value);
    const start = position + (data[position] === 0xd9 ? 2 : 1);
    const [type, ...flags] = body.attributes[data.subarray(start, value).toString()] ?? [];
    const open = data[value] === 0xc0 && flags.includes("computed");
    parts.push(data.subarray(position, value), open ? made(type) : data.subarray(value, end));
    position = end;
  }
  return Buffer.concat(parts);
}
const unknown = () => Buffer.from([0xd4, 0, 0]);
function example(type) {
  if (type === "string") return Buffer.from([0xa4, ...Buffer.from("made")]);
  if (type === "number") return Buffer.from([1]);
  if (type === "bool") return Buffer.from([0xc3]);
  return Buffer.from([type[0] === "map" ? 0x80 : 0x90]);
}

const METHODS = {
  GetSchema: () => Buffer.concat([
    bytes(1, schema(facts.configuration)),
    ...named(2, facts.resources),
    ...named(3, facts.data_sources),
  ]),
  PrepareProviderConfig: (request) => bytes(1, request[1]),
  ValidateResourceTypeConfig: () => Buffer.alloc(0),
  ValidateDataSourceConfig: () => Buffer.alloc(0),
  Configure: () => Buffer.alloc(0),
  Stop: () => Buffer.alloc(0),
  PlanResourceChange: (request) => {
    const proposed = fields(request[3])[1];
    const planned = completed(proposed, facts.resources[request[1].toString()], unknown);
    return Buffer.concat([bytes(1, bytes(1, planned)), flag(5, true)]);
  },
  ReadDataSource: (request) => {
    const config = fields(request[2])[1];
    return bytes(1, bytes(1, completed(config, facts.data_sources[request[1].toString()], example)));
  },
};

const server = http2.createServer();
server.on("stream", (stream, headers) => {
  const method = METHODS[headers[":path"].replace("/tfplugin5.Provider/", "")];
  const chunks = [];
  stream.on("error", () => {});
  stream.on("data", (chunk) => chunks.push(chunk));
  const answer = () => {
    if (stream.destroyed || stream.headersSent) return;
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    const unimplemented = method ? "0" : "12";
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": unimplemented }));
    if (!method) return stream.end();
    const message = method(fields(Buffer.concat(chunks).subarray(5)));
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.length, 1);
    stream.end(Buffer.concat([head, message]));
  };
  if (method) stream.on("end", answer);
  else answer();
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit()).resume();

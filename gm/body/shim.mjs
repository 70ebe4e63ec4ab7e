// The body's side of run_code in JavaScript: one body, the protocol of gm/body/channel.py over the socket in argv[2].
// Runs in node, deno and bun; nothing but their node: modules is used.
import { connect } from "node:net";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import process from "node:process";

const AsyncFunction = (async () => {}).constructor;
const SOURCE = "gm-body.js";
const channel = connect(process.argv[2]);
const waiting = new Map();
const lines = [];
let number = 0;
let unread = "";

class GmError extends Error {
  constructor({ code, message, hint, ...data }) {
    super(message);
    this.name = "GmError";
    Object.assign(this, { code, hint: hint ?? "", data });
  }
}

const send = (message) => channel.write(JSON.stringify(message) + "\n");

function ask(message, kind) {
  const site = new Error();
  return new Promise((settle, fail) => {
    waiting.set(++number, { settle, fail: (error) => fail(Object.assign(error, { stack: site.stack })) });
    send({ [kind]: number, ...message });
  });
}

function receive(line) {
  if (lines.length < 2) {
    lines.push(JSON.parse(line));
    if (lines.length === 2) start(lines[0], lines[1].verbs);
    return;
  }
  const answer = JSON.parse(line);
  const { settle, fail } = waiting.get(answer.id) ?? {};
  waiting.delete(answer.id);
  if (answer.error) fail?.(new GmError(answer.error));
  else settle?.(answer.ok);
}

function argumentsOf(name, verbs, given) {
  const [first] = given;
  if (given.length <= 1 && (first === undefined || (typeof first === "object" && !Array.isArray(first)))) {
    return first ?? {};
  }
  const parameters = verbs[name]?.[0] ?? [];
  return Object.fromEntries(given.map((value, index) => [parameters[index] ?? `argument ${index + 1}`, value]));
}

const describe = (error) =>
  error instanceof GmError
    ? { ...error.data, code: error.code, message: error.message, hint: error.hint }
    : { code: "exception", message: String(error), hint: "" };

function makeGm(verbs) {
  const attempt = async (what) => {
    try {
      return await (typeof what === "function" ? what() : what);
    } catch (error) {
      return { ok: false, error: describe(error) };
    }
  };
  const own = {
    Error: GmError,
    attempt,
    try: attempt,
    help: (verb) => ask({ verb: typeof verb === "function" ? verb.verb : String(verb) }, "help"),
    verbs(query = "") {
      const words = query.toLowerCase().split(/\s+/).filter(Boolean);
      return Object.values(verbs)
        .map(([, signature, summary]) => `${signature}: ${summary}`)
        .filter((text) => words.every((word) => text.toLowerCase().includes(word)));
    },
  };
  return new Proxy(own, {
    get(target, name) {
      if (name in target || typeof name === "symbol" || name === "then" || name === "toJSON") return target[name];
      const call = (...given) => ask({ verb: name, arguments: argumentsOf(name, verbs, given) }, "call");
      return (target[name] = Object.assign(call, { verb: name }));
    },
  });
}

function position(error, shift) {
  const frames = String(error?.stack ?? "").matchAll(/gm-body\.js:(\d+):(\d+)/g);
  return [...frames].map(([, line, column]) => ({ line: Number(line) - shift, column: Number(column) }));
}

async function lineShift() {
  try {
    await new AsyncFunction(`throw new Error("probe")\n//# sourceURL=${SOURCE}`)();
  } catch (error) {
    return (position(error, 0)[0]?.line ?? 3) - 1;
  }
  return 2;
}

function shown(value, notes) {
  const odd = new Set();
  const text = JSON.stringify(value, function (key, item) {
    const kind = typeof item;
    if (kind === "bigint" || kind === "symbol" || (kind === "function" && key !== "")) {
      odd.add(kind);
      return String(item);
    }
    if (item instanceof Map || item instanceof Set) {
      odd.add(item.constructor.name);
      return [...item];
    }
    if (item instanceof Error) {
      odd.add("Error");
      return String(item);
    }
    return item;
  });
  if (odd.size) notes.push(`Shown as text or lists, because JSON has no such value: ${[...odd].sort().join(", ")}.`);
  return text === undefined ? (value === undefined ? null : String(value)) : JSON.parse(text);
}

async function start({ code, workspace }, verbs) {
  process.chdir(workspace);
  const gm = makeGm(verbs);
  const require = createRequire(resolve(workspace, "body.js"));
  const load = async (specifier) => {
    const name = String(specifier);
    if (/^\.{0,2}\//.test(name)) return import(pathToFileURL(resolve(workspace, name)).href);
    if (/^[a-z]+:/i.test(name)) return import(name);
    let found;
    try {
      found = require.resolve(name);
    } catch {
      return import(name);
    }
    return import(/^(\/|[a-z]:[\\/])/i.test(found) ? pathToFileURL(found).href : found);
  };
  const shift = await lineShift();
  const notes = [];
  const fail = (error) => {
    const stack = position(error, shift);
    const type = error?.name ?? typeof error;
    const described = error instanceof GmError ? describe(error) : { code: "exception", message: String(error), hint: "" };
    if (error instanceof SyntaxError && !stack.length) described.code = "syntax_error";
    end({ ok: false, error: { ...described, type, stack, trace: "" } });
  };
  process.on("uncaughtException", fail);
  process.on("unhandledRejection", fail);
  process.on("exit", (status) => {
    if (!ended) process.stderr.write(`the body called process.exit(${status})\n`);
  });
  try {
    const body = new AsyncFunction("gm", "require", "__gmImport", `${code}\n//# sourceURL=${SOURCE}`);
    const value = await body(gm, require, load);
    end({ ok: true, value: shown(value, notes), notes });
  } catch (error) {
    fail(error);
  }
}

let ended = false;
function end(message) {
  if (!ended) send({ end: message });
  ended = true;
}

channel.setEncoding("utf8");
channel.on("data", (text) => {
  const parts = (unread + text).split("\n");
  unread = parts.pop();
  parts.forEach(receive);
});
channel.on("close", () => process.exit(0));
channel.on("error", () => process.exit(0));

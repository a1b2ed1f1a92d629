import assert from "node:assert/strict";
import { test } from "node:test";
import { HubClient } from "../../web/hub.js";
import { HubError } from "../../web/hub-errors.js";
import { Backoff, IdleLimit, PAUSES_S } from "../../web/hub-retry.js";

/** @import { HubErrorCode } from "../../web/hub-errors.js" */

const SHA = "0123456789abcdef0123456789abcdef01234567";
const INFO = { id: "org/name", sha: SHA, gated: false, private: false, siblings: [] };

/** A clock whose sleep takes no time and moves it. */
function quickClock() {
  let now = 0;
  return {
    now: () => now,
    /** @param {number} ms @param {AbortSignal} [signal] */
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      now += ms;
    },
  };
}

/**
 * A fetch that answers by a function, and the calls that were made.
 * @param {(url: string, init: RequestInit) => Response | Promise<Response>} answer
 */
function fakeFetch(answer) {
  /** @type {{ url: string, init: RequestInit & { headers: Record<string, string> } }[]} */
  const calls = [];
  /** @type {typeof globalThis.fetch} */
  const fetch = async (input, init) => {
    calls.push({ url: String(input), init: /** @type {(typeof calls)[0]["init"]} */ (init) });
    return await answer(String(input), init ?? {});
  };
  return { fetch, calls };
}

/**
 * A file on a server that answers ranges as the CDN does.
 * @param {Uint8Array<ArrayBuffer>} head
 * @param {number} size
 */
const rangesOf = (head, size) =>
  fakeFetch((_url, { headers }) => {
    const match = /^bytes=(\d+)-(\d+)$/.exec(/** @type {Record<string, string>} */ (headers).Range ?? "");
    assert.ok(match);
    const start = Number(match[1]);
    const end = Math.min(Number(match[2]), size - 1);
    if (start >= size) return new Response(null, { status: 416 });
    const body = new Uint8Array(end - start + 1);
    body.set(head.subarray(start, end + 1));
    return new Response(body, { status: 206, headers: { "Content-Range": `bytes ${start}-${end}/${size}` } });
  });

/** @param {number} length */
function headOf(length) {
  const head = new Uint8Array(8 + Math.min(length, 25_000_000)).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(length), true);
  head[8] = 0x7b;
  return head;
}

/** @param {Promise<unknown>} promise @returns {Promise<HubError>} */
async function errorOf(promise) {
  const error = await promise.then(
    () => assert.fail("no error"),
    (reason) => reason,
  );
  assert.ok(error instanceof HubError, String(error));
  return error;
}

test("every request is anonymous to the page's other secrets", async () => {
  const { fetch, calls } = fakeFetch((url) =>
    url.includes("/api/") ? Response.json(INFO) : new Response("{}", { status: 200 }),
  );
  const client = new HubClient({ fetch, endpoint: "https://hub.example/", token: " hf_secret\n" });
  await client.modelInfo("org/name", "refs/pr/1");
  await client.text("org/name", SHA, "config.json");
  assert.deepEqual(
    calls.map(({ url }) => url),
    [
      "https://hub.example/api/models/org/name/revision/refs%2Fpr%2F1?blobs=true",
      `https://hub.example/org/name/resolve/${SHA}/config.json`,
    ],
  );
  for (const { url, init } of calls) {
    assert.equal(init.mode, "cors");
    assert.equal(init.credentials, "omit");
    assert.equal(init.referrerPolicy, "no-referrer");
    assert.deepEqual(init.headers, { Authorization: "Bearer hf_secret" });
    assert.ok(init.signal);
    assert.ok(!url.includes("hf_secret"));
  }
});

test("without a token there is no header that would need a preflight", async () => {
  const { fetch, calls } = rangesOf(headOf(100), 1_000);
  await new HubClient({ fetch, token: "" }).header("org/name", SHA, "model.safetensors");
  assert.deepEqual(calls[0]?.init.headers, { Range: "bytes=0-65535" });
  assert.equal(calls[0]?.init.cache, "no-store");
});

test("the largest header that is read has 25 MB", async () => {
  const length = 25_000_000;
  const { fetch, calls } = rangesOf(headOf(length), length + 1_000);
  const header = await new HubClient({ fetch }).header("org/name", SHA, "model.safetensors");
  assert.equal(header.bytes.length, length + 8);
  assert.equal(header.fileSize, length + 1_000);
  assert.equal(calls[1]?.init.headers.Range, `bytes=65536-${length + 7}`);

  const larger = rangesOf(headOf(length + 1), length + 1_000);
  const error = await errorOf(new HubClient(larger).header("org/name", SHA, "model.safetensors"));
  assert.equal(error.code, "too-large");
  assert.equal(larger.calls.length, 1);
});

test("a header as long as the file allows, and one byte more", async () => {
  const fits = rangesOf(headOf(92), 100);
  assert.equal((await new HubClient(fits).header("org/name", SHA, "x.safetensors")).bytes.length, 100);
  const error = await errorOf(
    new HubClient(rangesOf(headOf(93), 100)).header("org/name", SHA, "x.safetensors"),
  );
  assert.equal(error.code, "bad-file");
});

for (const length of [2 ** 32, 2 ** 53, 2 ** 64 - 2 ** 12]) {
  test(`a length of ${length} is no safetensors file`, async () => {
    const error = await errorOf(new HubClient(rangesOf(headOf(length), 1_000)).header("org/name", SHA, "x"));
    assert.equal(error.code, "bad-file");
  });
}

test("the header comes in a buffer of its own, to be transferred", async () => {
  const { fetch } = rangesOf(headOf(100), 100_000);
  const { bytes } = await new HubClient({ fetch }).header("org/name", SHA, "model.safetensors");
  assert.equal(bytes.buffer.byteLength, 108);
});

test("without a readable Content-Range the listed size tells how long the body must be", async () => {
  const short = fakeFetch(() => new Response(headOf(92).slice(0, 60), { status: 206 }));
  const clock = quickClock();
  const error = await errorOf(
    new HubClient({ ...short, clock }).header("org/name", SHA, "x.safetensors", { size: 100 }),
  );
  assert.equal(error.code, "truncated");
  assert.equal(short.calls.length, 2);
});

test("a file of unknown size that ends inside its header", async () => {
  const short = fakeFetch(() => new Response(headOf(92).slice(0, 60), { status: 206 }));
  const error = await errorOf(new HubClient(short).header("org/name", SHA, "x.safetensors"));
  assert.equal(error.code, "bad-file");
  assert.equal(
    error.message,
    "x.safetensors of org/name is not a safetensors file: its header should end at byte 100 and the file at 60.",
  );
});

test("more bytes than asked for are refused", async () => {
  const long = fakeFetch(() => new Response(new Uint8Array(65_537), { status: 206 }));
  assert.equal((await errorOf(new HubClient(long).header("org/name", SHA, "x"))).code, "bad-range");
});

test("a total that the server does not know is not made up", async () => {
  const { fetch } = fakeFetch(
    () => new Response(headOf(92), { status: 206, headers: { "Content-Range": "bytes 0-99/*" } }),
  );
  assert.equal((await new HubClient({ fetch }).header("org/name", SHA, "x")).fileSize, null);
});

test("what the description says and does not say", async () => {
  const { fetch } = fakeFetch(() =>
    Response.json({
      ...INFO,
      id: "Org/New-Name",
      gated: "auto",
      siblings: [{ rfilename: "a.json", size: 0 }, { rfilename: "b.safetensors" }, { other: 1 }, null],
      safetensors: { parameters: { BF16: 8, F32: 2 }, total: 10 },
    }),
  );
  assert.deepEqual(await new HubClient({ fetch }).modelInfo("org/old", null), {
    id: "Org/New-Name",
    sha: SHA,
    gated: "auto",
    private: false,
    files: [
      { name: "a.json", size: 0 },
      { name: "b.safetensors", size: null },
    ],
    parameters: { BF16: 8, F32: 2 },
  });
});

for (const [title, body] of /** @type {[string, string][]} */ ([
  ["a web page", "<!doctype html>"],
  ["a list", "[]"],
  ["an id that leads elsewhere", JSON.stringify({ ...INFO, id: "../../api/whoami" })],
  ["no commit", JSON.stringify({ ...INFO, sha: "main" })],
  ["no files", JSON.stringify({ ...INFO, siblings: undefined })],
])) {
  test(`${title} is no description of a model`, async () => {
    const { fetch } = fakeFetch(() => new Response(body));
    assert.equal((await errorOf(new HubClient({ fetch }).modelInfo("org/name", null))).code, "bad-answer");
  });
}

test("a description that is disabled", async () => {
  const { fetch } = fakeFetch(() => Response.json({ ...INFO, disabled: true }));
  assert.equal((await errorOf(new HubClient({ fetch }).modelInfo("org/name", null))).code, "disabled");
});

test("text that is not UTF-8", async () => {
  const { fetch } = fakeFetch(() => new Response(new Uint8Array([0x7b, 0xff, 0x7d])));
  const error = await errorOf(new HubClient({ fetch }).text("org/name", SHA, "config.json"));
  assert.equal(error.message, "config.json of org/name is not UTF-8 text.");
});

/** @type {[status: number, headers: Record<string, string>, code: HubErrorCode][]} */
const answers = [
  [400, {}, "unexpected"],
  [401, { "X-Error-Message": "Invalid username or password." }, "not-found"],
  [401, {}, "not-found"],
  [401, { "X-Error-Code": "GatedRepo" }, "gated"],
  [401, { "X-Error-Message": "Invalid credentials in Authorization header" }, "bad-token"],
  [403, { "X-Error-Code": "GatedRepo" }, "gated-not-approved"],
  [403, { "X-Error-Message": "Access to this resource is disabled." }, "disabled"],
  [403, {}, "forbidden"],
  [404, { "X-Error-Code": "RepoNotFound" }, "not-found"],
  [404, { "X-Error-Code": "RevisionNotFound" }, "bad-revision"],
  [404, { "X-Error-Code": "EntryNotFound" }, "no-file"],
  [404, {}, "no-file"],
  [429, {}, "rate-limited"],
  [451, {}, "unexpected"],
  [500, {}, "unavailable"],
  [504, {}, "unavailable"],
];

for (const [status, headers, code] of answers) {
  test(`a file answered with ${status} ${JSON.stringify(headers)} is ${code}`, async () => {
    const { fetch } = fakeFetch(() => new Response("", { status, headers }));
    const client = new HubClient({ fetch, clock: quickClock() });
    const error = await errorOf(client.text("org/name", SHA, "config.json"));
    assert.equal(error.code, code);
    assert.match(error.message, /^[A-Z].*\.$|^org\/name .*\.$/);
    assert.match(error.hint, /^[A-Z].*\.$/);
    assert.doesNotMatch(error.message + error.hint, /password/);
  });
}

test("the reason of a 403 may stand in the body alone", async () => {
  const { fetch } = fakeFetch(() =>
    Response.json({ error: "Access to this resource is disabled." }, { status: 403 }),
  );
  assert.equal((await errorOf(new HubClient({ fetch }).modelInfo("org/name", null))).code, "disabled");
});

test("a model answered with 404 and no code is not a missing file", async () => {
  const { fetch } = fakeFetch(() => new Response("", { status: 404 }));
  assert.equal((await errorOf(new HubClient({ fetch }).modelInfo("org/name", null))).code, "not-found");
});

test("a programming error is not called a network error", async () => {
  const { fetch } = rangesOf(headOf(100), 1_000);
  const broken = () => {
    throw new TypeError("a bug");
  };
  const reading = new HubClient({ fetch }).header("org/name", SHA, "x", { onLength: broken });
  await assert.rejects(reading, { name: "TypeError", message: "a bug" });
});

test("requests that are refused together wait together", async () => {
  const clock = quickClock();
  const backoff = new Backoff(clock, () => {});
  for (let request = 0; request < 16; request += 1) assert.equal(backoff.refused(0), true);
  await backoff.wait(undefined);
  assert.equal(clock.now(), 5_000);
  assert.equal(
    PAUSES_S.reduce((sum, pause) => sum + pause),
    300,
  );
});

test("the pauses fill one window and start again after an answer", async () => {
  const clock = quickClock();
  /** @type {number[]} */
  const shown = [];
  const backoff = new Backoff(clock, (seconds) => shown.push(seconds));
  for (const pause of PAUSES_S) {
    const before = clock.now();
    assert.equal(backoff.refused(before), true);
    await backoff.wait(undefined);
    assert.equal(clock.now() - before, pause * 1_000);
  }
  assert.equal(backoff.refused(clock.now()), false);
  assert.equal(shown.length, 300);
  backoff.accepted(clock.now());
  assert.equal(backoff.refused(clock.now()), true);
});

test("an answer to a request from before the pause says nothing of the limit", async () => {
  const clock = quickClock();
  const backoff = new Backoff(clock, () => {});
  backoff.refused(0);
  backoff.accepted(0);
  await backoff.wait(undefined);
  backoff.refused(clock.now());
  await backoff.wait(undefined);
  assert.equal(clock.now(), 15_000, "the second pause in a row is the longer one");
});

test("silence ends a request, progress keeps it", ({ mock }) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const limit = new IdleLimit(1_000, undefined);
  mock.timers.tick(999);
  limit.progress();
  mock.timers.tick(999);
  assert.deepEqual([limit.expired, limit.signal.aborted], [false, false]);
  mock.timers.tick(1);
  assert.deepEqual([limit.expired, limit.signal.aborted], [true, true]);
});

test("the caller's reason ends a request", () => {
  const controller = new AbortController();
  const limit = new IdleLimit(60_000, controller.signal);
  controller.abort("enough");
  assert.equal(limit.signal.reason, "enough");
  assert.equal(limit.expired, false);
  limit.end();
});

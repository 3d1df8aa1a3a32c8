/**
 * Watch jobs, batches, queues, tenants and users of Penstock from a page.
 *
 *     import { watch } from "/static/penstock-live.js";
 *     const watching = watch("job/42", { onState: ({ state, final }) => … });
 *     watching.close();
 *
 * Each call of `onState` has the whole present state: what was missed in between does not matter.
 * A connection that breaks is made again; after a final state nothing more comes.
 *
 * @typedef {object} Live
 * @property {string} subject   `job/42`, `batch/42`, `queue/…`, `tenant/…` or `user/…`
 * @property {string|null} version   the same version is the same state; null if the subject is gone
 * @property {boolean} final   nothing comes after it
 * @property {object|null} state   null if the subject is gone
 *
 * @typedef {object} Access   who asks; if nothing says it, the session's cookie does
 * @property {string} [base]   where the service is, without a slash at the end; "" is this origin
 * @property {string} [token]   an API key, if the page may know one
 * @property {string|((subjects: string[]) => string|Promise<string>)} [ticket]
 *     a ticket, which lasts for a minute, or a function that gets a new one from your server
 *
 * @typedef {object} Watcher
 * @property {(live: Live) => void} onState
 * @property {(error: LiveError) => void} [onError]   once, when it is given up: 401, 403, 404, 422
 * @property {"events"|"poll"} [transport]   where no events come through, it polls by itself
 */

const LIVE = "/api/v1/live";
const GIVEN_UP = [401, 403, 404, 422];
const TRIES = 3; // then it polls
const POLL = 2000;
const FIRST = 10000; // a stream that has told nothing by then is held up on its way
const SILENCE = 40000; // a socket says something every 15 seconds

/** An answer after which it is useless to go on. */
export class LiveError extends Error {
  constructor(/** @type {number} */ status, /** @type {string} */ detail) {
    super(detail);
    this.status = status;
  }
}

/**
 * Watch one subject.
 * @param {string} subject @param {Access & Watcher} options @returns {{ close: () => void }}
 */
export function watch(subject, options) {
  const leaving = new AbortController();
  follow(subject, options, leaving).catch((error) => options.onError?.(error));
  return { close: () => leaving.abort() };
}

async function follow(subject, options, leaving) {
  const take = newest((live) => {
    if (live.final) leaving.abort();
    options.onState(live);
  });
  let streams = options.transport !== "poll";
  let answered = 0; // polls answered while no stream came; a full server answers none
  for (let failed = 0; !leaving.signal.aborted; failed++) {
    const url = await address(options, pathOf(subject), [subject], take.version);
    if (url && streams && (await listen(url, take, leaving.signal))) failed = answered = 0;
    else if (url) {
      const live = await poll(url); // it tells why there is no stream, or the state
      take(live);
      if (live) answered++;
    }
    streams &&= answered <= TRIES || Boolean(take.streamed);
    await sleep(streams ? pause(failed) : POLL, leaving.signal);
  }
}

/** The stream until it breaks: whether it told something. A new one gets a new ticket. */
function listen(url, take, signal) {
  let told = false;
  return during(signal, (end) => {
    const source = new EventSource(url, { withCredentials: !url.searchParams.has("ticket") });
    const timer = setTimeout(() => take.version || end(told), FIRST);
    source.onopen = () => (told = Boolean(take.version));
    source.onmessage = (event) => (told = take.streamed = true) && take(JSON.parse(event.data));
    source.onerror = () => end(told);
    return () => (clearTimeout(timer), source.close());
  });
}

async function poll(url) {
  const answer = await fetch(url, { headers: { accept: "application/json" } }).catch(() => null);
  return answer && (await readable(answer)) ? answer.json() : null;
}

/**
 * One socket for many subjects.
 *
 *     const live = connect();
 *     const job = live.watch("job/42", { onState });
 *     job.close();
 *     live.close();
 *
 * @param {Access} [access]
 * @returns {{ watch(subject: string, options: Watcher): { close(): void }, close(): void }}
 */
export function connect(access = {}) {
  const leaving = new AbortController();
  const watched = new Map();
  let socket, failed, wake;
  const say = (wish) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(wish));
  const join = (subject) => say({ subscribe: subject, version: watched.get(subject).take.version });

  const hear = ({ problem, ...live }) => {
    const one = watched.get(live.subject);
    if (problem || live.final) watched.delete(live.subject);
    if (problem) one?.onError?.(new LiveError(problem.status, problem.detail ?? problem.message));
    else one?.take(live);
  };
  const look = async (subject) => {
    const url = await address(access, pathOf(subject), [subject]);
    hear((url && (await poll(url).catch((problem) => ({ subject, problem })))) || {});
  };
  const talk = (url) =>
    during(leaving.signal, (end) => {
      socket = new WebSocket(url);
      let silence = setTimeout(end, SILENCE);
      socket.onopen = () => [...watched.keys()].forEach(join);
      socket.onclose = () => end();
      socket.onmessage = (event) => {
        clearTimeout(silence);
        silence = setTimeout(end, SILENCE);
        failed = 0;
        hear(JSON.parse(event.data));
      };
      return () => (clearTimeout(silence), socket.close());
    });
  const run = async () => {
    for (failed = 0; !leaving.signal.aborted; failed++) {
      if (!watched.size) await during(leaving.signal, (end) => ((wake = end), () => {}));
      const url = await address(access, LIVE, [...watched.keys()]);
      if (url) await talk(Object.assign(url, { protocol: url.protocol.replace("http", "ws") }));
      if (failed >= TRIES) await Promise.all([...watched.keys()].map(look));
      await sleep(pause(failed), leaving.signal);
    }
  };
  run().catch((error) => watched.forEach((one) => one.onError?.(error)));

  return {
    watch(subject, options) {
      watched.set(subject, { ...options, take: newest(options.onState) });
      wake?.();
      // A ticket is for the subjects that it names: for one more it takes another.
      if (access.ticket || access.token) socket?.close();
      else join(subject);
      return { close: () => void (watched.delete(subject) && say({ unsubscribe: subject })) };
    },
    close: () => leaving.abort(),
  };
}

/** Pass on what is new: one connection after the other tells what it sees, in that order. */
function newest(pass) {
  const take = (live) => {
    if (!live || live.version === take.version) return;
    take.version = live.version;
    pass(live);
  };
  return take;
}

const pathOf = (subject) => `${LIVE}/${subject.split("/").map(encodeURIComponent).join("/")}`;

/** Where to ask; null if there is no ticket to be had just now. */
async function address(access, path, subjects, version) {
  const url = new URL((access.base ?? "") + path, location.href);
  if (version) url.searchParams.set("version", version);
  if (!access.ticket && !access.token) return url;
  const ticket = await ticketFor(access, subjects);
  if (ticket) url.searchParams.set("ticket", ticket);
  return ticket && url;
}

async function ticketFor({ base = "", ticket, token }, subjects) {
  if (typeof ticket === "string") return ticket;
  if (ticket) return Promise.resolve(ticket(subjects)).catch(() => null);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const asked = { method: "POST", headers, body: JSON.stringify({ subjects }) };
  const answer = await fetch(`${base}${LIVE}/tickets`, asked).catch(() => null);
  return answer && (await readable(answer)) ? (await answer.json()).ticket : null;
}

async function readable(answer) {
  if (!GIVEN_UP.includes(answer.status)) return answer.status === 200 || answer.status === 201;
  const { detail = answer.statusText } = await answer.json().catch(() => ({}));
  throw new LiveError(answer.status, detail);
}

/** Run something until it ends itself or the signal comes; `begin` gives what stops it. */
function during(signal, begin) {
  return new Promise((resolve) => {
    let stop = () => {};
    const end = (value) => {
      signal.removeEventListener("abort", end);
      stop();
      resolve(value);
    };
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
    else stop = begin(end);
  });
}

const sleep = (milliseconds, signal) =>
  during(signal, (end) => {
    const timer = setTimeout(end, milliseconds);
    return () => clearTimeout(timer);
  });

/** Longer and longer, and not for all pages at the same moment. */
const pause = (failed) => Math.min(15000, 250 * 2 ** failed) * (0.5 + Math.random() / 2);

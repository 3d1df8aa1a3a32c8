/**
 * Watch jobs, batches, queues, tenants and users of Penstock from a web page.
 *
 *     import { watch } from "/static/penstock-live.js";
 *     const watching = watch("job/42", { onState: ({ state, final }) => … });
 *     watching.close();
 *
 * Each call of `onState` gets the whole present state, so missed states do not matter. The module
 * reconnects after a lost connection, and stops after a final state.
 *
 * @typedef {object} Live
 * @property {string} subject   `job/42`, `batch/42`, `queue/…`, `tenant/…` or `user/…`
 * @property {string|null} version   the same version is the same state; null if the subject is gone
 * @property {boolean} final   whether this is the last state
 * @property {object|null} state   null if the subject is gone
 *
 * @typedef {object} Access   how to authenticate; by default by the session's cookie
 * @property {string} [base]   the service, without a slash at the end; "" is this origin
 * @property {string} [token]   an API key, if the page may have one
 * @property {string|((subjects: string[]) => string|Promise<string>)} [ticket]
 *     a ticket, which lasts for a minute, or a function that gets a new one from your server
 *
 * @typedef {object} Watcher
 * @property {(live: Live) => void} onState
 * @property {(error: LiveError) => void} [onError]   once, if it fails for good: 401, 403, 404, 422
 * @property {"events"|"poll"} [transport]   without it, the module polls if no events get through
 */

const LIVE_PATH = "/api/v1/live";
const FATAL_STATUSES = [401, 403, 404, 422];
const MAX_FAILURES = 3; // After these it polls.
const POLL_INTERVAL_MS = 2000;
const FIRST_EVENT_TIMEOUT_MS = 10000; // A stream without an event by then is blocked by a proxy.
const SILENCE_TIMEOUT_MS = 40000; // The server sends something every 15 seconds.

/** An answer that makes it useless to try again. */
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
  const aborter = new AbortController();
  follow(subject, options, aborter).catch((error) => options.onError?.(error));
  return { close: () => aborter.abort() };
}

async function follow(subject, options, aborter) {
  const deliver = onlyChanges((live) => {
    if (live.final) aborter.abort();
    options.onState(live);
  });
  let canStream = options.transport !== "poll";
  let polls = 0; // Polls that were answered since a stream last worked. A full server answers none.
  for (let failures = 0; !aborter.signal.aborted; failures++) {
    const url = await liveUrl(options, subjectPath(subject), [subject], deliver.version);
    if (url && canStream && (await stream(url, deliver, aborter.signal))) failures = polls = 0;
    else if (url) {
      const live = await poll(url); // This returns the state, or throws why there is no stream.
      deliver(live);
      if (live) polls++;
    }
    canStream &&= polls <= MAX_FAILURES || Boolean(deliver.hasStreamed);
    await sleep(canStream ? backoff(failures) : POLL_INTERVAL_MS, aborter.signal);
  }
}

/** Stream until the connection is lost. Resolves to whether it worked. */
function stream(url, deliver, signal) {
  let hasWorked = false;
  return untilAborted(signal, (end) => {
    const source = new EventSource(url, { withCredentials: !url.searchParams.has("ticket") });
    const timer = setTimeout(() => deliver.version || end(hasWorked), FIRST_EVENT_TIMEOUT_MS);
    source.onopen = () => (hasWorked = Boolean(deliver.version));
    source.onmessage = (event) => {
      hasWorked = deliver.hasStreamed = true;
      deliver(JSON.parse(event.data));
    };
    // An EventSource would reconnect with the same ticket, so a new one is made instead.
    source.onerror = () => end(hasWorked);
    return () => (clearTimeout(timer), source.close());
  });
}

async function poll(url) {
  const answer = await fetch(url, { headers: { accept: "application/json" } }).catch(() => null);
  return answer && (await isSuccess(answer)) ? answer.json() : null;
}

/**
 * Watch many subjects over one WebSocket.
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
  const aborter = new AbortController();
  const watched = new Map();
  let socket, failures, wake;
  const send = (message) =>
    socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
  const subscribe = (subject) =>
    send({ subscribe: subject, version: watched.get(subject).deliver.version });

  const handle = ({ problem, ...live }) => {
    const watcher = watched.get(live.subject);
    if (problem || live.final) watched.delete(live.subject);
    if (problem)
      watcher?.onError?.(new LiveError(problem.status, problem.detail ?? problem.message));
    else watcher?.deliver(live);
  };
  const pollSubject = async (subject) => {
    const url = await liveUrl(access, subjectPath(subject), [subject]);
    handle((url && (await poll(url).catch((problem) => ({ subject, problem })))) || {});
  };
  const runSocket = (url) =>
    untilAborted(aborter.signal, (end) => {
      socket = new WebSocket(url);
      let silenceTimer = setTimeout(end, SILENCE_TIMEOUT_MS);
      socket.onopen = () => [...watched.keys()].forEach(subscribe);
      socket.onclose = () => end();
      socket.onmessage = (event) => {
        clearTimeout(silenceTimer);
        silenceTimer = setTimeout(end, SILENCE_TIMEOUT_MS);
        failures = 0;
        handle(JSON.parse(event.data));
      };
      return () => (clearTimeout(silenceTimer), socket.close());
    });
  const run = async () => {
    for (failures = 0; !aborter.signal.aborted; failures++) {
      if (!watched.size) await untilAborted(aborter.signal, (end) => ((wake = end), () => {}));
      const url = await liveUrl(access, LIVE_PATH, [...watched.keys()]);
      const protocol = url?.protocol.replace("http", "ws");
      if (url) await runSocket(Object.assign(url, { protocol }));
      if (failures >= MAX_FAILURES) await Promise.all([...watched.keys()].map(pollSubject));
      await sleep(backoff(failures), aborter.signal);
    }
  };
  run().catch((error) => watched.forEach((watcher) => watcher.onError?.(error)));

  return {
    watch(subject, options) {
      watched.set(subject, { ...options, deliver: onlyChanges(options.onState) });
      wake?.();
      // A ticket is only for the subjects that it names, so another subject needs a new ticket.
      if (access.ticket || access.token) socket?.close();
      else subscribe(subject);
      return { close: () => void (watched.delete(subject) && send({ unsubscribe: subject })) };
    },
    close: () => aborter.abort(),
  };
}

/** Return a function that passes on each state that differs from the one before. */
function onlyChanges(callback) {
  const deliver = (live) => {
    if (!live || live.version === deliver.version) return;
    deliver.version = live.version;
    callback(live);
  };
  return deliver;
}

const subjectPath = (subject) =>
  `${LIVE_PATH}/${subject.split("/").map(encodeURIComponent).join("/")}`;

/** Return the URL to connect to, or null if no ticket can be had at the moment. */
async function liveUrl(access, path, subjects, version) {
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
  const request = { method: "POST", headers, body: JSON.stringify({ subjects }) };
  const answer = await fetch(`${base}${LIVE_PATH}/tickets`, request).catch(() => null);
  return answer && (await isSuccess(answer)) ? (await answer.json()).ticket : null;
}

/** Return whether a request succeeded. Throws a LiveError if it is useless to try again. */
async function isSuccess(answer) {
  if (!FATAL_STATUSES.includes(answer.status)) return [200, 201].includes(answer.status);
  const { detail = answer.statusText } = await answer.json().catch(() => ({}));
  throw new LiveError(answer.status, detail);
}

/** Run `begin` until it calls its argument, or the signal aborts; then call what it returned. */
function untilAborted(signal, begin) {
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
  untilAborted(signal, (end) => {
    const timer = setTimeout(end, milliseconds);
    return () => clearTimeout(timer);
  });

/** Return a pause that grows with failures. It is random, so that pages do not all come at once. */
const backoff = (failures) => Math.min(15000, 250 * 2 ** failures) * (0.5 + Math.random() / 2);

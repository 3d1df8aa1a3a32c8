/** Show the API to a user who is logged in or enters a key. The page does not store the key. */

const here = new URL(".", document.baseURI).href;
const form = document.querySelector("form");
const input = form.querySelector("input");
const showMessage = (text) => (document.querySelector("[role=alert]").textContent = text ?? "");

/** Fetch the OpenAPI document. Tries again while the server is busy. */
async function fetchDocument(key) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  for (;;) {
    const answer = await fetch(`${here}api/v1/openapi.json`, { headers }).catch(() => null);
    if (answer && answer.status !== 503) return answer;
    const seconds = Number(answer?.headers.get("retry-after")) || 2;
    const why = answer ? "is busy or stopping" : "cannot be reached";
    showMessage(`The server ${why}. This page asks again by itself.`);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  }
}

async function show(key) {
  const answer = await fetchDocument(key);
  if (!answer.ok) return (await answer.json().catch(() => ({}))).detail ?? answer.statusText;
  const settings = {
    "allow-spec-file-load": false,
    "allow-spec-url-load": false,
    "allow-server-selection": false,
    "load-fonts": false,
    "render-style": "read",
    "schema-style": "table",
    "show-header": false,
    "server-url": here.replace(/\/$/, ""),
    "default-api-server": here.replace(/\/$/, ""),
    "api-key-name": "Authorization",
    "api-key-location": "header",
    "api-key-value": key ? `Bearer ${key}` : "-",
  };
  const page = document.createElement("rapi-doc");
  for (const [name, value] of Object.entries(settings)) page.setAttribute(name, value);
  form.replaceWith(page);
  await customElements.whenDefined("rapi-doc");
  page.loadSpec(await answer.json());
  return null;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  showMessage(await show(input.value.trim()));
});
form.hidden = !(await show(""));
showMessage("");

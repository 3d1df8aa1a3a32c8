/** Show what the service can be asked, to who is logged in or has a key; the page keeps no key. */

const here = new URL(".", document.baseURI).href;
const form = document.querySelector("form");
const input = form.querySelector("input");

async function show(key) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const answer = await fetch(`${here}api/v1/openapi.json`, { headers });
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
  form.querySelector("[role=alert]").textContent = await show(input.value.trim());
});
form.hidden = !(await show(""));

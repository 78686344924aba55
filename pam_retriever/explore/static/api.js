// Requests to the server of this page, with the token of its address.

const token = new URLSearchParams(location.search).get("token") ?? "";

export class Refused extends Error {}

async function send(path, options) {
  const response = await fetch(`/api/${path}`, {
    ...options,
    headers: { Authorization: `Bearer ${token}`, ...(options.body ? { "Content-Type": "application/json" } : {}) },
  });
  if (response.ok) return response;
  const text = await response.text();
  let said = text;
  try {
    said = JSON.parse(text).problem;
  } catch {
    said = text; // plain words of the server
  }
  throw new Refused(said || `The server answered ${response.status}.`);
}

export async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(parameters).toString();
  return (await send(query ? `${path}?${query}` : path, { signal })).json();
}

export async function post(path, body = {}, signal = undefined) {
  return (await send(path, { method: "POST", body: JSON.stringify(body), signal })).json();
}

export async function bytes(path, parameters = {}, signal = undefined) {
  return (await send(`${path}?${new URLSearchParams(parameters)}`, { signal })).arrayBuffer();
}

export async function file(path, body) {
  return (await send(path, { method: "POST", body: JSON.stringify(body) })).blob();
}

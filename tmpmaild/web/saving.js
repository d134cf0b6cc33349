// Saves several files as one archive. The files are fetched one after another within the rate limit.

import { save } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { t } from "./words.js";
import { safeName, zip } from "./zip.js";

// Return a file name that contains the subject of a message.
export const nameOfFile = (subject, ending) => `${safeName(subject)}${ending}`;

// `files` are `{ name, load(), isHere }`; a file that is already loaded needs no request. `name` and `date` are the
// name and date of the archive, and `onProgress(text)` reports the progress. Files that no longer exist are skipped. One
// request within the rate limit is reserved for the reader.
export async function saveAll(files, name, date, { api, signal, onProgress }) {
  const of = files.length;
  const loaded = [];
  for (const [n, file] of files.entries()) {
    onProgress(t("saving", { n, of }));
    const onWait = (seconds) => onProgress(t("saving-later", { n, of, seconds }));
    const loading = file.isHere ? file.load() : whenAllowed(api, file.load, { spare: 1, signal, onWait });
    const blob = await loading.catch((error) => (error.code === "message-not-found" ? undefined : Promise.reject(error)));
    if (blob) loaded.push({ name: file.name, blob });
  }
  save(await zip(loaded, date), `${safeName(name)}.zip`);
  onProgress(t("saved", { n: loaded.length }));
}

// Saves several files as one archive, fetched one after another at the pace of the rate limit.

import { save } from "./dom.js";
import { whenAllowed } from "./paced.js";
import { t } from "./words.js";
import { safeName, zip } from "./zip.js";

// Return the name of a file that has the subject of a message.
export const nameOfFile = (subject, ending) => `${safeName(subject)}${ending}`;

// `files` are `{ name, load(), isHere }`, where what is here already takes no request; `name` and `date` are those of the archive.
// `tell(text)` is told how far it is. A file that is no longer there is left out. One request
// is left to the reader.
export async function saveAll(files, name, date, { api, signal, tell }) {
  const of = files.length;
  const loaded = [];
  for (const [n, file] of files.entries()) {
    tell(t("saving", { n, of }));
    const onWait = (seconds) => tell(t("saving-later", { n, of, seconds }));
    const loading = file.isHere ? file.load() : whenAllowed(api, file.load, { spare: 1, signal, onWait });
    const blob = await loading.catch((error) => (error.code === "message-not-found" ? undefined : Promise.reject(error)));
    if (blob) loaded.push({ name: file.name, blob });
  }
  save(await zip(loaded, date), `${safeName(name)}.zip`);
  tell(t("saved", { n: loaded.length }));
}

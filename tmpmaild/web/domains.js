// Finds the domain names in a text, in linear time.

const RUN = /[\p{L}\p{N}\p{M}.\u3002-]+/gu;
const DOTS = /[.\u3002]/;
const LAST = /^[\p{L}\p{M}]{2,}/u;

// Return the domains in a text: labels separated by dots, where the last label starts with two letters.
export const domainsIn = (text) =>
  (text.match(RUN) ?? []).flatMap((run) => run.split(/[.\u3002]{2,}/)).flatMap((part) => {
    const labels = part.split(DOTS).filter(Boolean);
    const last = labels.findLastIndex((label, at) => at > 0 && LAST.test(label));
    return last > 0 ? [[...labels.slice(0, last), LAST.exec(labels[last])[0]].join(".")] : [];
  });

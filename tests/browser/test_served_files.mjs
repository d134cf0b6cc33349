// Values with variables in them keep the spaces with which they were written.
export const RULES = text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return [...sheet.cssRules].map((rule) => rule.cssText.replaceAll(/\s+/g, ' ').replaceAll(', ', ','));
};

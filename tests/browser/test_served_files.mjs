// Normalises spaces: values with variables keep their original spaces.
export const RULES = text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  return [...sheet.cssRules].map((rule) => rule.cssText.replaceAll(/\s+/g, ' ').replaceAll(', ', ','));
};

export const EXPECT = async (all, options) => {
  const { expression, isNot } = options;
  const ofAll = expression === "to.have.count" || expression.endsWith(".array");
  if (all.length || ofAll) return await __playwright.expect(all[0], options, all, true);
  const absent = ["to.be.hidden", "to.be.detached"], present = ["to.be.visible", "to.be.attached", "to.be.in.viewport"];
  return { matches: absent.includes(expression) || (isNot && !present.includes(expression)) };
};

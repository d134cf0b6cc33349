export const KEPT = async () => {
    const names = await caches.keys();
    const kept = await Promise.all(names.map(async (name) => (await caches.open(name)).keys()));
    return kept.flat().map(({ url }) => new URL(url).pathname.replace(/[0-9a-f]{16}/, "VERSION"));
};

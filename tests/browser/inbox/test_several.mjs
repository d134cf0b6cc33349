export const WATCH_STATE = () => {
  const state = document.querySelector("#state");
  window.states = [];
  new MutationObserver(() => states.push(state.innerText)).observe(state, { childList: true, subtree: true });
};

// What all forms do: send to the site what they hold, not what the field shows.

export const post = async (path, said) => {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(said) });
  return answer.text();
};

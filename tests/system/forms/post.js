// Shared by all forms: sends the form's internal state to the site, rather than the text in the fields.

export const post = async (path, said) => {
  const answer = await fetch(path, { method: "POST", body: JSON.stringify(said) });
  return answer.text();
};

// Six fields of one character, each drawn from what all hold, which lead on to the next, as widgets for codes are made.

import { useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { post } from "./post.js";

function SignUp() {
  const [isSent, setSent] = useState(false);
  const [email, setEmail] = useState("");
  const [digits, setDigits] = useState(["", "", "", "", "", ""]);
  const [said, setSaid] = useState("");
  const fields = useRef([]);
  const type = (index, value) => {
    setDigits(digits.map((one, at) => (at === index ? value.slice(-1) : one)));
    if (value && index < 5) fields.current[index + 1].focus();
  };
  const go = async (event) => {
    event.preventDefault();
    if (!isSent) await post("/sign-up", { email }), setSent(true);
    else setSaid(await post("/confirm", { code: digits.join("") }));
  };
  return (
    <form onSubmit={go}>
      {!isSent && <input type="email" value={email} onChange={(e) => setEmail(e.target.value)} />}
      {isSent && digits.map((digit, index) => (
        <input key={index} maxLength={1} inputMode="numeric" value={digit} autoFocus={index === 0}
          ref={(field) => (fields.current[index] = field)} onChange={(e) => type(index, e.target.value)} />
      ))}
      <button disabled={isSent ? digits.includes("") : !email}>Go on</button>
      <p>{said}</p>
    </form>
  );
}

createRoot(document.getElementById("app")).render(<SignUp />);

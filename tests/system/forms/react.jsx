import { useState } from "react";
import { createRoot } from "react-dom/client";
import { post } from "./post.js";

function SignUp() {
  const [step, setStep] = useState("address");
  const [email, setEmail] = useState("");
  const [code, setCode] = useState("");
  const [said, setSaid] = useState("");
  const go = async (event) => {
    event.preventDefault();
    if (step === "address") await post("/sign-up", { email }), setStep("code");
    else setSaid(await post("/confirm", { code }));
  };
  return (
    <form onSubmit={go}>
      {step === "address" ? (
        <input type="email" placeholder="you@example.com" value={email} onChange={(e) => setEmail(e.target.value)} />
      ) : (
        <input name="otp" value={code} onChange={(e) => setCode(e.target.value.replace(/\D/g, ""))} />
      )}
      <button disabled={step === "address" ? !email : code.length !== 6}>Go on</button>
      <p>{said}</p>
    </form>
  );
}

createRoot(document.getElementById("app")).render(<SignUp />);

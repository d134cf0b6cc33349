import { createApp, h, ref, withDirectives, vModelText } from "vue";
import { post } from "./post.js";

const field = (model, about) =>
  withDirectives(h("input", { ...about, "onUpdate:modelValue": (value) => (model.value = value) }), [[vModelText, model.value]]);

createApp({
  setup() {
    const [step, email, code, said] = [ref("address"), ref(""), ref(""), ref("")];
    const go = async (event) => {
      event.preventDefault();
      if (step.value === "address") await post("/sign-up", { email: email.value }), (step.value = "code");
      else said.value = await post("/confirm", { code: code.value });
    };
    return () => h("form", { onSubmit: go }, [
      step.value === "address"
        ? field(email, { key: 1, type: "text", name: "user[email]" })
        : field(code, { key: 2, type: "text", autocomplete: "one-time-code" }),
      h("button", { disabled: !(step.value === "address" ? email.value : code.value) }, "Go on"),
      h("p", said.value),
    ]);
  },
}).mount("#app");

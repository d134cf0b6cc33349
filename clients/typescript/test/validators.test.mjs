// Our addresses pass the validators that applications use: Joi, zod, yup, valibot, validator.js.

import assert from "node:assert/strict";
import { test } from "node:test";
import Joi from "joi";
import * as valibot from "valibot";
import validator from "validator";
import * as yup from "yup";
import { z } from "zod";

const DOMAIN = "mail.example.com"; // the default of `domains`, checked by tests/test_accepted_elsewhere.py
const ADDRESSES = [`k7m3wq9xt2ab@${DOMAIN}`, `ada+shop@${DOMAIN}`, `jane.doe-2_x@${DOMAIN}`, `ada@acme.${DOMAIN}`];
const ACCEPTS = {
  joi: (address) => Joi.string().email().validate(address).error === undefined,
  zod: (address) => z.email().safeParse(address).success,
  yup: (address) => yup.string().email().isValidSync(address),
  valibot: (address) => valibot.safeParse(valibot.pipe(valibot.string(), valibot.email()), address).success,
  "validator.js": (address) => validator.isEmail(address),
};

for (const [name, accepts] of Object.entries(ACCEPTS)) {
  test(`${name} accepts an address at the default domain, with a tag, and at a subdomain`, () => {
    assert.deepEqual(ADDRESSES.filter(accepts), ADDRESSES);
    assert.ok(!accepts("no address"));
  });
}

test("Joi refuses the domains that are reserved for tests, so none of them is the default", () => {
  for (const domain of ["tmpmaild.example", "mail.test"]) assert.ok(!ACCEPTS.joi(`ada@${domain}`));
});

it("signs up with the code of the mail", () => {
  cy.newInbox().then((address) => {
    cy.visit("/");
    cy.contains("label", "E-mail").find("input").type(address);
    cy.contains("button", "Sign up").click();
    cy.waitForCode({ address, subject: "confirm" }).then((code) => {
      cy.contains("label", "Code").find("input").type(code);
    });
    cy.contains("button", "Confirm").click();
    cy.contains("You are in.");
  });
});

// Italiano.

export default {
  recipients: "Destinatari",
  "all-recipients": "Tutti i destinatari",
  "find-recipient": "Cerca un destinatario",
  "no-recipient": "Nessun destinatario corrisponde.",
  "no-recent-recipient": "Nessuno degli ultimi {n} destinatari corrisponde. Per trovarne altri, cerca {term} nelle e-mail.",
  "more-recipients": { one: "1 altro destinatario: scrivi per trovarlo.", other: "Altri {n} destinatari: scrivi per trovarli." },
  "and-more": { one: "e 1 altro", other: "e altri {n}" },
  search: "Cerca in tutte le e-mail",
  searched: "{n} e-mail su {all} esaminate…",
  older: "E-mail meno recenti",
  newer: "E-mail più recenti",
  "save-to-recipient": "Salva le e-mail per questo destinatario in mbox",
  "delete-all": "Elimina tutte le e-mail",
  "delete-shown": { one: "Elimina l’e-mail mostrata", other: "Elimina le {n} e-mail mostrate" },
  "deleting-inbox": "Eliminazione di tutte le e-mail…",
  "send-to": "Accetta e-mail via SMTP su {smtp}",
  "empty-text": "Invia e-mail via SMTP a {smtp}, a qualsiasi destinatario. Quello che arriva compare qui da solo.",
  "public-note": "Chiunque possa aprire questa pagina può leggere ed eliminare tutte le e-mail.",
  "no-such-message": "Questa e-mail non c’è più. È stata eliminata, oppure il servizio è stato riavviato senza conservare le e-mail.",
};

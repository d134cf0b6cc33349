// Deutsch.

export default {
  recipients: "Empfänger",
  "all-recipients": "Alle Empfänger",
  "find-recipient": "Empfänger suchen",
  "no-recipient": "Kein Empfänger passt.",
  "no-recent-recipient": "Kein Treffer unter den letzten {n} Empfängern. Für andere in den Mails nach {term} suchen.",
  "more-recipients": { one: "1 weiterer Empfänger: Text eingeben, um ihn zu finden.", other: "{n} weitere Empfänger: Text eingeben, um sie zu finden." },
  "and-more": { one: "und 1 weiteren", other: "und {n} weitere" },
  search: "Alle Mails durchsuchen",
  searched: "{n} von {all} Mails durchsucht …",
  older: "Ältere Mails",
  newer: "Neuere Mails",
  "save-to-recipient": "Mails an diesen Empfänger als mbox speichern",
  "delete-all": "Alle Mails löschen",
  "delete-shown": { one: "Die angezeigte Mail löschen", other: "Die {n} angezeigten Mails löschen" },
  "deleting-inbox": "Alle Mails werden gelöscht …",
  "send-to": "Nimmt Mails per SMTP an: {smtp}",
  "empty-text": "Sende Mails per SMTP an {smtp}, an beliebige Empfänger. Was kommt, erscheint hier von selbst.",
  "public-note": "Jeder, der diese Seite erreicht, kann alle Mails lesen und löschen.",
  "no-such-message": "Diese Mail ist nicht mehr da. Sie wurde gelöscht, oder der Dienst wurde neu gestartet, ohne Mails zu behalten.",
};

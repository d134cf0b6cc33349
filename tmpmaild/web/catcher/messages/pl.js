// Polski.

export default {
  recipients: "Odbiorcy",
  "all-recipients": "Wszyscy odbiorcy",
  "find-recipient": "Znajdź odbiorcę",
  "no-recipient": "Żaden odbiorca nie pasuje.",
  "no-recent-recipient": "Żaden z ostatnich {n} odbiorców nie pasuje. Aby znaleźć innych, wyszukaj {term} w wiadomościach.",
  "more-recipients": { one: "Jeszcze 1 odbiorca: wpisz tekst, aby go znaleźć.", few: "Jeszcze {n} odbiorców: wpisz tekst, aby ich znaleźć.", many: "Jeszcze {n} odbiorców: wpisz tekst, aby ich znaleźć.", other: "Jeszcze {n} odbiorców: wpisz tekst, aby ich znaleźć." },
  "and-more": { one: "i jeszcze 1", few: "i jeszcze {n}", many: "i jeszcze {n}", other: "i jeszcze {n}" },
  search: "Szukaj we wszystkich wiadomościach",
  searched: "Przeszukano {n} z {all} wiadomości…",
  older: "Starsze wiadomości",
  newer: "Nowsze wiadomości",
  "save-to-recipient": "Zapisz wiadomości do tego odbiorcy jako mbox",
  "delete-all": "Usuń wszystkie wiadomości",
  "delete-shown": { one: "Usuń wyświetloną wiadomość", few: "Usuń {n} wyświetlone wiadomości", many: "Usuń {n} wyświetlonych wiadomości", other: "Usuń {n} wyświetlonych wiadomości" },
  "deleting-inbox": "Usuwanie wszystkich wiadomości…",
  "send-to": "Przyjmuje pocztę przez SMTP: {smtp}",
  "empty-text": "Wysyłaj pocztę przez SMTP na {smtp}, do dowolnego odbiorcy. To, co przyjdzie, pojawi się tu samo.",
  "public-note": "Każdy, kto może otworzyć tę stronę, może czytać i usuwać wszystkie wiadomości.",
  "no-such-message": "Tej wiadomości już tu nie ma. Została usunięta albo usługę uruchomiono ponownie bez zachowania wiadomości.",
};

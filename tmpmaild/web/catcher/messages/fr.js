// Français.

export default {
  recipients: "Destinataires",
  "all-recipients": "Tous les destinataires",
  "find-recipient": "Rechercher un destinataire",
  "no-recipient": "Aucun destinataire ne correspond.",
  "no-recent-recipient": "Aucun des {n} derniers destinataires ne correspond. Pour les autres, recherchez {term} dans les e-mails.",
  "more-recipients": { one: "{n} autre destinataire\u00a0: saisissez du texte pour le trouver.", other: "{n} autres destinataires\u00a0: saisissez du texte pour les trouver." },
  "and-more": { one: "et {n} autre", other: "et {n} autres" },
  search: "Rechercher dans tous les e-mails",
  searched: "{n} e-mails sur {all} parcourus…",
  older: "E-mails plus anciens",
  newer: "E-mails plus récents",
  "save-to-recipient": "Enregistrer les e-mails à ce destinataire en mbox",
  "delete-all": "Supprimer tous les e-mails",
  "delete-shown": { one: "Supprimer l’e-mail affiché ({n})", other: "Supprimer les {n} e-mails affichés" },
  "deleting-inbox": "Suppression de tous les e-mails…",
  "send-to": "Accepte les e-mails par SMTP\u00a0: {smtp}",
  "empty-text": "Envoyez des e-mails par SMTP à {smtp}, à n’importe quel destinataire. Ce qui arrive apparaît ici tout seul.",
  "public-note": "Toute personne qui peut ouvrir cette page peut lire et supprimer tous les e-mails.",
  "no-such-message": "Cet e-mail n’est plus là. Il a été supprimé, ou le service a redémarré sans conserver les e-mails.",
};

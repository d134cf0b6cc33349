// Português (Brasil).

export default {
  recipients: "Destinatários",
  "all-recipients": "Todos os destinatários",
  "find-recipient": "Encontrar um destinatário",
  "no-recipient": "Nenhum destinatário corresponde.",
  "no-recent-recipient": "Nenhum dos últimos {n} destinatários corresponde. Para encontrar outros, pesquise {term} nos e-mails.",
  "more-recipients": { one: "Mais {n} destinatário: digite para encontrá-lo.", other: "Mais {n} destinatários: digite para encontrá-los." },
  "and-more": { one: "e mais {n}", other: "e mais {n}" },
  search: "Pesquisar em todos os e-mails",
  searched: "{n} de {all} e-mails pesquisados…",
  older: "E-mails mais antigos",
  newer: "E-mails mais recentes",
  "save-to-recipient": "Salvar os e-mails para este destinatário em mbox",
  "delete-all": "Excluir todos os e-mails",
  "delete-shown": { one: "Excluir o e-mail exibido ({n})", other: "Excluir os {n} e-mails exibidos" },
  "deleting-inbox": "Excluindo todos os e-mails…",
  "send-to": "Aceita e-mails por SMTP em {smtp}",
  "empty-text": "Envie e-mails por SMTP para {smtp}, a qualquer destinatário. O que chegar aparece aqui sozinho.",
  "public-note": "Qualquer pessoa que consiga abrir esta página pode ler e excluir todos os e-mails.",
  "no-such-message": "Este e-mail não está mais aqui. Ele foi excluído, ou o serviço foi reiniciado sem guardar os e-mails.",
};

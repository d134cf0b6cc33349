// Español.

export default {
  recipients: "Destinatarios",
  "all-recipients": "Todos los destinatarios",
  "find-recipient": "Buscar un destinatario",
  "no-recipient": "Ningún destinatario coincide.",
  "no-recent-recipient": "Ninguno de los últimos {n} destinatarios coincide. Para encontrar otros, busca {term} en los correos.",
  "more-recipients": { one: "1 destinatario más: escribe para encontrarlo.", other: "{n} destinatarios más: escribe para encontrarlos." },
  "and-more": { one: "y 1 más", other: "y {n} más" },
  search: "Buscar en todos los correos",
  searched: "{n} de {all} correos revisados…",
  older: "Correos más antiguos",
  newer: "Correos más recientes",
  "save-to-recipient": "Guardar los correos para este destinatario en mbox",
  "delete-all": "Eliminar todos los correos",
  "delete-shown": { one: "Eliminar el correo mostrado", other: "Eliminar los {n} correos mostrados" },
  "deleting-inbox": "Eliminando todos los correos…",
  "send-to": "Acepta correo por SMTP en {smtp}",
  "empty-text": "Envía correo por SMTP a {smtp}, a cualquier destinatario. Lo que llegue aparecerá aquí solo.",
  "public-note": "Cualquiera que pueda abrir esta página puede leer y eliminar todos los correos.",
  "no-such-message": "Este correo ya no está aquí. Se eliminó, o el servicio se reinició sin conservar los correos.",
};

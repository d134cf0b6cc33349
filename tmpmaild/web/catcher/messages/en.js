// English. These texts are added to those of the inbox, or replace them, on the page for all messages.

export default {
  recipients: "Recipients",
  "all-recipients": "All recipients",
  "find-recipient": "Find a recipient",
  "no-recipient": "No recipients match.",
  "no-recent-recipient": "No match among the {n} most recent recipients. For others, search the messages for {term}.",
  "more-recipients": { one: "1 more recipient: type to find it.", other: "{n} more recipients: type to find them." },
  "and-more": { one: "and 1 more", other: "and {n} more" },
  search: "Search all messages",
  searched: "{n} of {all} messages searched…",
  older: "Older messages",
  newer: "Newer messages",
  "save-to-recipient": "Save the messages to this recipient as mbox",
  "delete-all": "Delete all messages",
  "delete-shown": { one: "Delete the message shown", other: "Delete the {n} messages shown" },
  "deleting-inbox": "Deleting all messages…",
  "send-to": "Accepts mail on SMTP {smtp}",
  "empty-text": "Send mail to {smtp} over SMTP, to any recipient. It appears here automatically.",
  "public-note": "Anyone who can reach this page can read and delete all messages.",
  "no-such-message": "This message no longer exists. It was deleted, or the service was restarted without keeping messages.",
};

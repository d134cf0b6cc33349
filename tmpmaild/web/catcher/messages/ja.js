// 日本語.

export default {
  recipients: "宛先",
  "all-recipients": "すべての宛先",
  "find-recipient": "宛先を検索",
  "no-recipient": "一致する宛先はありません。",
  "no-recent-recipient": "最近の {n} 件の宛先に一致するものはありません。ほかの宛先は、メールを {term} で検索してください。",
  "more-recipients": { other: "ほかに {n} 件の宛先があります。入力して検索してください。" },
  "and-more": { other: "ほか {n} 件" },
  search: "すべてのメールを検索",
  searched: "{all} 通中 {n} 通を検索しました…",
  older: "古いメール",
  newer: "新しいメール",
  "save-to-recipient": "この宛先のメールを mbox で保存",
  "delete-all": "すべてのメールを削除",
  "delete-shown": { other: "表示中の {n} 通を削除" },
  "deleting-inbox": "すべてのメールを削除しています…",
  "send-to": "SMTP {smtp} でメールを受信します",
  "empty-text": "SMTP で {smtp} にメールを送信してください。宛先は問いません。届いたメールは自動的にここに表示されます。",
  "public-note": "このページを開ける人は誰でも、すべてのメールを読んだり削除したりできます。",
  "no-such-message": "このメールはもうありません。削除されたか、メールを保存せずにサービスが再起動されました。",
};

// 简体中文. Also used for traditional Chinese, as long as there is no separate file for it (zh-TW, zh-HK).

export default {
  recipients: "收件人",
  "all-recipients": "全部收件人",
  "find-recipient": "查找收件人",
  "no-recipient": "没有匹配的收件人。",
  "no-recent-recipient": "最近的 {n} 个收件人中没有匹配项。要查找其他收件人，请在邮件中搜索 {term}。",
  "more-recipients": { other: "还有 {n} 个收件人：输入文字即可查找。" },
  "and-more": { other: "及另外 {n} 人" },
  search: "搜索全部邮件",
  searched: "已搜索 {n} / {all} 封邮件…",
  older: "更早的邮件",
  newer: "更新的邮件",
  "save-to-recipient": "将发给此收件人的邮件存为 mbox",
  "delete-all": "删除全部邮件",
  "delete-shown": { other: "删除显示的 {n} 封邮件" },
  "deleting-inbox": "正在删除全部邮件…",
  "send-to": "通过 SMTP {smtp} 接收邮件",
  "empty-text": "用 SMTP 向 {smtp} 发送邮件，收件人任意。收到的邮件会自动显示在这里。",
  "public-note": "能打开此页面的任何人都可以阅读和删除全部邮件。",
  "no-such-message": "这封邮件已不在这里。它已被删除，或者服务重启时没有保留邮件。",
};

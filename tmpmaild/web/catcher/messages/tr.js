// Türkçe.

export default {
  recipients: "Alıcılar",
  "all-recipients": "Tüm alıcılar",
  "find-recipient": "Alıcı bul",
  "no-recipient": "Eşleşen alıcı yok.",
  "no-recent-recipient": "Son {n} alıcı arasında eşleşen yok. Diğerleri için e-postalarda {term} arayın.",
  "more-recipients": { one: "1 alıcı daha: bulmak için yazın.", other: "{n} alıcı daha: bulmak için yazın." },
  "and-more": { one: "ve 1 kişi daha", other: "ve {n} kişi daha" },
  search: "Tüm e-postalarda ara",
  searched: "{all} e-postadan {n} tanesi arandı…",
  older: "Daha eski e-postalar",
  newer: "Daha yeni e-postalar",
  "save-to-recipient": "Bu alıcıya gelen e-postaları mbox olarak kaydet",
  "delete-all": "Tüm e-postaları sil",
  "delete-shown": { one: "Gösterilen e-postayı sil", other: "Gösterilen {n} e-postayı sil" },
  "deleting-inbox": "Tüm e-postalar siliniyor…",
  "send-to": "SMTP ile e-posta kabul eder: {smtp}",
  "empty-text": "SMTP ile {smtp} adresine, herhangi bir alıcıya e-posta gönderin. Gelenler burada kendiliğinden görünür.",
  "public-note": "Bu sayfaya erişebilen herkes tüm e-postaları okuyabilir ve silebilir.",
  "no-such-message": "Bu e-posta artık burada değil. Silinmiş ya da hizmet, e-postalar saklanmadan yeniden başlatılmış.",
};

"""The words that tell the link a mail was sent for from the others; what follows from them is in links.

How to write them is told in cues. The lines: English, German, French, Spanish, Portuguese, Italian, Dutch, Polish,
Russian, Ukrainian, Turkish, Chinese, Japanese, Korean.
"""
# ruff: noqa: RUF001 (Cyrillic letters look like Latin ones, and are not)

from enum import IntEnum, auto

from tmpmaild.findings.lexicon import Lexicon


class Cue(IntEnum):
    """What a word tells about a link."""

    VERIFY = auto()
    """To verify, confirm, activate, reset, accept."""

    SIGN_IN = auto()
    """To sign in, join, continue: often what a mail was sent for, often not."""

    HERE = auto()
    """Says only that there is a link: what it is for stands around it."""

    ASIDE = auto()
    """To unsubscribe, read terms, ask for help: never what a mail was sent for."""


_WORDS = {
    Cue.VERIFY: """
        verif* confirm* activat* validat* authenticat* authoris* authoriz* reset* recover* accept* approve* unlock*
        set_password set_up new_password create_password choose_password change_password opt_in optin was_me
        bestatig* verifizier* aktivier* freischalt* zurucksetz* zuruckzusetz* annehmen freigeben neues_passwort
        neues_kennwort
        passwort_festlegen passwort_andern einladung war_ich
        verifi* activer activez active activation validez valider reinitialis* accepter acceptez nouveau_mot
        verific* activa activar activacion restablec* recuper* acepta* valida* crear_contrasena nueva_contrasena
        fui_yo
        ativ* redefin* aceit* repor valid* criar_senha nova_senha nova_palavra
        conferm* attiv* reimpost* ripristin* accett* convalid* crea_password nuova_password
        bevestig* activeer activeren herstel* accepteer* instellen valideer* nieuw_wachtwoord
        potwierd* zweryfik* weryfik* aktyw* zresetuj resetuj ustaw nowe_haslo zaakceptuj przyjmij
        подтвер* активир* активац* сброс* восстан* принять прими* новый_пароль
        підтвер* активу* скину* скида* віднов* прийня* новий_пароль
        dogrula* onayla* etkinlestir* aktif* sifirla* kabul yeni_sifre
        bekrafta verifiera aterstall* bekraeft* nulstil* bekreft* tilbakestill* vahvista overit potvrdit obnovit
        验证 驗證 确认 確認 激活 啟用 启用 重置 重設 接受 找回 设置密码 設定密碼
        認証 有効化 再設定 承認 承諾 本登録 登録を完了
        인증 확인 활성화 재설정 수락
        تأكيد تفعيل אימות אישור
    """,
    Cue.SIGN_IN: """
        log_in login sign_in signin log_me sign_me join continue get_started start finish complete subscribe magic
        anmelden einloggen beitreten fortfahren weiter registrierung abschliessen
        connecter connexion rejoindre continuer terminer finaliser
        iniciar_sesion inicia_sesion acceder accede entrar unirse unete continuar completar
        iniciar_sessao acessar aceder juntar concluir
        accedi accedere entra unisciti continua completa
        inloggen aanmelden deelnemen doorgaan voltooi*
        zaloguj dolacz kontynuuj dokoncz
        войти вход присоединит* продолжить завершить
        увійти вхід приєднат* продовжити завершити
        giris katil devam tamamla*
        登录 登入 加入 继续 繼續 完成
        ログイン サインイン 参加 続ける 完了
        로그인 참여 참가 계속 완료
    """,
    Cue.HERE: """
        click here link button press follow open visit url address browser
        klick* hier schaltflache folgenden adresse
        cliqu* ici lien bouton suivant
        clic haz pulsa aqui enlace boton siguiente
        clique botao seguinte
        clicca qui pulsante seguente
        klik knop volgende
        kliknij tutaj tu przycisk
        нажмите здесь сюда ссылк* кнопк* перейд*
        натисніть тут посилан*
        tikla* buraya baglanti* dugme*
        点击 點擊 链接 連結 リンク クリック URL 링크 클릭
    """,
    Cue.ASIDE: """
        unsubscribe unsubscribing opt_out optout privacy terms policy legal help support faq contact preferences
        settings
        wasn didn report cancel in_browser web_version facebook twitter instagram linkedin youtube tiktok pinterest
        app_store google_play download learn_more read_more follow_us blog shop survey feedback imprint careers about
        abmelden abbestell* austragen datenschutz* agb impressum hilfe kontakt einstellungen im_browser
        nutzungsbedingungen
        mehr_erfahren stornier* widerruf*
        desabonn* desinscri* confidentialite mentions conditions aide contact* parametres navigateur annuler
        baja darse privacidad condiciones terminos ayuda contacto contacta* preferencias ajustes navegador cancelar
        subscricao descadastr* privacidade termos ajuda contato definicoes
        disiscri* annulla* informativa termini condizioni aiuto assistenza contatta* preferenze impostazioni
        uitschrijven afmelden privacybeleid voorwaarden hulp voorkeuren instellingen annuleer*
        wypisz rezygn* prywatnosc* regulamin* pomoc ustawienia przegladarce anuluj
        отписат* конфиденциальн* условия помощ* поддержк* контакт* настройк* браузере отмен* пожалов*
        відписат* конфіденційн* умови допомог* підтримк* налаштуван* браузері скасуват*
        abonelik* gizlilik kosullar* yardim destek iletisim tercih* ayarlar iptal
        退订 退訂 取消订阅 取消訂閱 隐私 隱私 条款 條款 帮助 幫助 客服 设置 設定 联系
        配信停止 退会 プライバシー 利用規約 ヘルプ お問い合わせ 設定変更 会社概要 サポート
        수신거부 개인정보 약관 도움말 고객센터 설정 문의
    """,
}

LEXICON = Lexicon(_WORDS)

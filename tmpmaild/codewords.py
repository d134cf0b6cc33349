"""The words that tell a code from other numbers, in the languages of sign-up mail; what follows from them is in codes.

How to write them is told in cues. The lines of a cue: English, German, French, Spanish, Portuguese, Italian, Dutch,
Polish, Russian, Ukrainian, Turkish; then their neighbours; Chinese, Japanese, Korean; others.
"""
# ruff: noqa: RUF001 (Cyrillic letters look like Latin ones, and are not)

from enum import IntEnum, auto

from tmpmaild.cues import Lexicon


class Cue(IntEnum):
    """What a word tells about the numbers around it; integers, because an Enum takes long to hash."""

    OTP = auto()
    """Names a one-time password or verification code, all by itself."""

    CODE = auto()
    """Names a code of whatever kind."""

    PASSWORD = auto()
    """Names a password; beside ONCE, a one-time password."""

    ONCE = auto()
    """Says of a password or code that it is for one time or a short time."""

    VERIFY = auto()
    """Belongs to verification and to hardly anything else."""

    CONFIRM = auto()
    """Belongs to verification, and to other business too."""

    ENTER = auto()
    """What one does with a code."""

    HINT = auto()
    """Is said about a code: how long it lasts, whom not to tell."""

    LABEL = auto()
    """Names another number; beside CODE, another kind of code."""

    NUMBER = auto()
    """"Number": names another number, but beside VERIFY a code."""

    THING = auto()
    """What a code may be for and what has a number of its own."""

    TRADE = auto()
    """Coupons, bookings, meetings, receipts: business with codes of its own."""

    OLD = auto()
    """Says of a code that it no longer counts."""

    UNIT = auto()
    """Makes the number before it an amount."""

    IS = auto()
    """Stands between a name and its value."""


_WORDS = {
    Cue.OTP: """
        otp otps totp motp mtan smstan pushtan phototan chiptan einmalcode
        动态码 動態碼 取件码 取件碼 取货码 取貨碼 提货码 提取码
    """,
    Cue.CODE: """
        code codes passcode passcodes pin pincode pins token tokens passphrase
        tan tans zahlenkombination ziffernfolge zahlencode kenncode kennzahl
        codigo codigos clave claves codice codici kod kody kodu kodem kodom kodow kode koden kodet kodi kodeks
        код кода коду кодом коде коды кодов коди кодів пин пинкод пін
        kodun kodunu kodunuz kodunuzu kodunuzdur kodudur kodla koduyla kodumuz sifreniz sifreniz*
        koder koda kodas kods koodi* kood cod codul codului kodot kodja κωδικος κωδικο κωδικου
        kode ma_so ma_xac ma_otp ma_dang ma_bao
        代码 代碼 口令 码 碼 コード 暗証番号 確認番号 코드
        رمز الرمز کد كود קוד कोड ओटीपी รหัส
    """,
    Cue.PASSWORD: """
        password passwords passwort* kennwort* passe contrasena* senha senhas palavra_passe wachtwoord* haslo hasla hasel
        пароль пароля паролем пароли sifre sifresi sifrenizi parola* losenord* adgangskode* passord* salasana* heslo hesla
        jelszo* sandi mat_khau 密码 密碼 パスワード 비밀번호 مرور סיסמה पासवर्ड
    """,
    Cue.ONCE: """
        one_time onetime single_use temporary dynamic
        einmal* temporare* vorubergehend* usage_unique temporaire un_solo solo_uso unico_uso temporal dinamica
        uso_unico temporari* monouso uso_singolo temporane* eenmalig* tijdelijk* jednoraz* tymczas*
        одноразов* временн* тимчас* tek_kullanimlik kullanimlik gecici engangs* tillfallig* midlertidig* kertakaytto*
        jednorazov* docasn* egyszer* ideiglenes*
        一次性 动态 動態 临时 臨時 ワンタイム 仮 일회용 임시
    """,
    Cue.VERIFY: """
        verif* authentic* log_in logging_in logon login* sign_in signin signing_in signed_in sign_up signup signing_up
        two_factor two_step multi_factor mfa identity reset resetting recover* magic pairing unlock* guard
        courier driver locker delivery_code delivery_pin pickup_code pickup_pin collection_code collection_pin
        authentifi* anmeld* anzumelden einlogg* einzuloggen zweifaktor* zweistuf* identi* zuruckgesetz* zurucksetz*
        zuruckzusetzen wiederherstell* ausweis* abhol* kurier* fahrer* ubergabe* lieferpin liefercode
        connexion connecter connectez connecte double_facteur deux_etapes deux_facteurs reinitialis* livreur* retrait
        sesion dos_pasos dos_factores autentic* restablec* recuper* repartidor* mensajero recogida
        sessao entrar duas_etapas dois_fatores dois_factores redefin* entregador* estafeta* retirada levantamento
        due_fattori due_passaggi reimpost* ripristin* ritir* corriere fattorino
        inlog* ingelogd aanmeld* aan_melden in_loggen tweestaps* twee_staps tweefactor* herstel* afhaal* afhal* bezorger*
        koerier*
        weryfik* uwierzyteln* zalog* logow* dwuetap* dwuskladnik* tozsam* resetow* odzysk* odbior* odebra* kurier*
        верифи* провер* аутентиф* вход* войти войд* двухфактор* двухэтап* личност* сброс* восстан* курьер* получени*
        выдач* самовывоз*
        верифі* перевір* автентиф* вхід* входу увійти увійд* двофактор* двоетап* скид* віднов* кур отриман* видач*
        dogrula* kimlig* kimlik* giris* oturum* iki_asamali iki_adimli iki_faktorlu sifirla* kurye* teslim*
        inlogg* logga tvafaktor* log_ind logg_inn totrins* tofaktor* kirjaut* tunnist* overen* overov* overit* prihlas*
        ellenorz* hitelesit* belep* bejelentk* autentif* επαληθ* συνδεσ*
        verifikasi masuk xac_minh xac_thuc dang_nhap
        验证 驗證 校验 认证 認證 登录 登入 登陆 登錄 身份 身分 重置 重設 找回 绑定 綁定 取件 取货 取貨 提货
        認証 検証 ログイン サインイン 本人 再設定 受け取り 受取
        인증 로그인 본인 재설정 수령
        تحقق دخول مصادقة تأیید ورود אימות כניסה सत्यापन लॉगिन ยืนยัน
    """,
    Cue.CONFIRM: """
        confirm* security secure activat* authoris* authoriz* auth access accessing validation validate approve* approval
        register registering registration pickup pick_up
        bestatig* sicherheit* aktivier* freischalt* freigabe* freigeben freizugeben autoris* zugang* zugriff* registrier*
        validier* pruf*
        securite activation activer activez acces acceder accedez valider validez inscri* deverrouill*
        segurid* activac* activar activa autoriz* acceso acceder accede validac* validar registr* desbloque*
        seguranc* ativ* ativar acess* aceder aceda cadastr* regist*
        conferm* sicurezza attiv* autorizz* accesso accedere accedi convalid* iscri* sblocc*
        bevestig* beveilig* veiligheid* activer* toegang* ontgrendel*
        potwierdz* bezpiecz* aktyw* autoryz* dostep* rejestr* zarejestr* odblok*
        подтверд* подтвержд* безопасн* активац* активир* авториз* доступ* регистр* зарегистр* разблок*
        підтверд* безпек* активу* реєстр* зареєстр* розблок*
        onay* guvenlik* aktivasyon* etkinlestir* erisim* kayit* kaydol* uyelik* uyeligi*
        bekraft* bekreft* bekraeft* sakerhet* sikkerhed* sikkerhet* aktivera* godkann* godkend* vahvist* potvrd* potvrz*
        bezpecnost* aktivac* megerosit* biztonsag* securitate επιβεβαι* ασφαλει*
        konfirmasi keamanan xac_nhan bao_mat
        确认 確認 安全 注册 註冊 激活 啟用 启用 授权 授權
        確認番号 セキュリティ 登録 アクセス 有効化 承認
        확인 보안 가입 등록 접속 활성화 승인
        تأكيد أمان تفعيل امنیتی אבטחה אישור सुरक्षा पुष्टि
    """,
    Cue.ENTER: """
        enter entering use using type typing input copy paste provide tell give submit quote
        eingeben eingibst ein_gib gib geben verwende* nutze nutzen benutze* tippe* nenne* kopier* eintragen
        saisi* entrez entrer utilis* indiqu* copi* donn* communiqu* tapez renseign*
        ingres* introdu* usa use utilic* escrib* indica indique comparte anota*
        insir* inserir digite digita* utiliz* informe copie introduz*
        inserisc* inserire inserisci digitare utilizz* comunic* mostra
        voer vul gebruik* typ toon
        wpisz wpisac wprowad* uzyj podaj przepisz skopiuj
        введите введи ввести используйте используй укажите назовите сообщите покажите продиктуйте
        введіть використ* вкажіть назвіть покажіть
        girin* girerek gir kullan* yazin*
        ange anvand* skriv indtast* brug tast bruk syota kayta zadejte zadajte pouzijte introduceti folositi masukkan
        gunakan nhap
        输入 輸入 使用 填写 填寫 凭 憑 入力 입력 사용
        أدخل ادخل استخدم הזן दर्ज
    """,
    Cue.HINT: """
        minute minutes min mins expire* expiring share sharing shared ignore disregard request* anyone nobody valid
        seconds recognise recognize
        minuten gultig* teile teilen weitergeb* weiter ignorier* angeforder* niemand* verliert
        expir* valable* valid* partag* ignor* minutos minuto caduc* compart* solicit* partilh* compartilh*
        minuti scad* condivid* richiest* geldig* deel negeer* aangevraagd minut* wazn* udostepn* zignoruj*
        минут* действ* сообща* передава* запраш* проигнор* никому хвилин* дійсн* повідомл* ігнор* нікому
        dakika* gecerli* paylas* kimse* giltig* gaelder gjelder voimassa platn* ervenyes*
        分钟 分鐘 有效 泄露 洩漏 告知 他人 忽略 分以内 分間 有効 第三者 心当たり 分内 分以內 이내 유효 타인 무시 요청
        دقائق دقيقة صالح
    """,
    Cue.LABEL: """
        order orders invoice receipt ticket case reference ref tracking shipment parcel package customer client member
        membership policy contract ending ends phone telephone tel fax call calling mobile hotline helpline zip postcode
        postal barcode bar qr sort iban bic swift vat tax fiscal registered company error status exit http version build
        model serial sku item article product style batch lot flight seat gate room door floor suite apt street page
        line commit pull issue incident class course lesson dress country area source license licence charity since
        copyright meter plate vehicle location terminal merchant employee student patient file dossier box rfc iso return
        colour color hex po dial survey cart subscription balance hs morse server ip port fca ssn zone branch bank rental
        bestell* auftrag* rechnung* kunden* vorgang* sendung* paket* referenz* aktenzeichen vertrag* endet endziffer*
        telefon* rufnummer* handynummer plz postleitzahl* postfach hrb hra ust* steuer* mitglied* personal* fehler*
        artikel* produkt* serien* zimmer* raum* tur turcode zangenabdruck* abonnement* mieter* saldo servicecode
        servicenummer geburtsdatum leitzahl bankleitzahl gate
        commande* facture* suivi colis reference contrat* finissant terminant appelez erreur* produit* siret siren
        voiture place adherent* piece guichet
        pedido* factura* cliente* seguimiento rastreo envio referencia contrato* terminada termina telefono llama*
        producto* articulo* cif nif cita expediente socio
        encomenda* fatura* rastreio rastreamento telefone ligue erro produto artigo cnpj cpf cep atendimento
        ordine ordini fattura* spedizione tracciamento contratto chiama* cap errore prodotto avviso biglietto pratica
        postale fiscale
        bestelling* factuur* klant* zending* pakket* bel telefoon* kvk foutcode fout* lidnummer trace track
        zamowien* faktur* klient* przesylk* sledzeni* umow* zadzwon pocztow* blad bledu krs nip regon domofon* infolin*
        bilet* wniosk* sali
        заказ* счет клиент* отслежив* накладн* договор* телефон* тел звоните почтов* индекс* ошибк* товар* инн огрн трек*
        обращени* статья артикул* документ* посылк* отправлени* налог* домофон*
        замовлен* рахун* клієнт* відстеж* поштов* індекс* помилк* звернен* посилк*
        siparis* fatura* musteri* kargo* takip* gonderi* hata* urun* posta* biten vergi* mersis
        faktur* kund* objednav* zakazn* zasilk* zasielk* rendeles* comand* puh* postnummer*
        订单 訂單 快递单 运单 發票 发票 客户 客戶 会员 會員 电话 電話 热线 熱線 致电 致電 邮编 邮政 错误 商品 尾号 尾數 股票
        税号 备案 证件 客服 货号 编码 編碼 条码 條碼 条形码 二维码 二維碼 扫码 掃碼 尺码 数码 數碼 源码 源代码 区号
        注文 お問い合わせ 問い合わせ 伝票 会員 電話 郵便 エラー 商品 受付番号 登録番号 バーコード QRコード 追跡 金融機関
        주문 송장 운송장 회원 전화 우편 오류 상품 사업자 고객센터 문의 바코드 계좌번호
        طلب هاتف הזמנה טלפון
    """,
    Cue.NUMBER: """
        number numbers no nr num numero numeros nummer nummers numer numeru numery numara* номер* numar cislo szam numer*
        id ids 番号 번호 号码 號碼 编号 編號 单号 號 号
    """,
    Cue.THING: """
        account accounts card cards device email mail e_mail sms konto karte* compte comptes carte cuenta* tarjeta*
        conta contas cartao conto carta rekening* kaart konta karty karta аккаунт* карт* картк* hesab* kart*
        账号 帳號 账户 帳戶 卡 アカウント カード 계정 카드
    """,
    Cue.TRADE: """
        % ％ coupon* voucher* promo* discount* off checkout gift* reward* cashback redeem* sale deal deals referral* refer
        invite invites in_store loyalty points
        booking* reservation* reserved itinerary flight* check_in checkin guest* boarding pnr passenger* nights rental
        meeting* webinar* webex dial_in conference participant* host audio join_meeting join_zoom join_by join_from
        subtotal terminal merchant
        gutschein* rabatt* aktion* angebot* einlosen einlos* warenkorb geschenk* pramie* filiale spar spare sparen sparst
        buchung* reservier* flug* anreise* abreise ubernacht* besprechung* konferenz* einwahl* teilnehm*
        promotion* remise* rabais reduction* cadeau* offre* panier solde soldes parrain* economis* en_magasin
        vol vols voyage* embarquement reunion* visioconf* participer
        cupon* descuento* oferta* regalo* rebaja* ahorr* carrito canje* referid* en_tienda
        reserva* vuelo* viaje* embarque localizador huesped* conferencia
        cupom cupons cupao desconto* brinde presente resgat* carrinho na_loja voo voos hospede* reuniao
        sconto sconti scont* buono buoni offert* saldi carrello risparmi* riscatt* in_negozio
        prenotazion* volo voli imbarco riunione ospiti
        korting* actie acties actiecode cadeau* waardebon aanbieding* bespaar winkelmand* afrekenen kassa inwissel*
        boeking* reserver* vlucht* vergadering* deelnemen
        rabat* kupon* promoc* znizk* prezent* okazj* koszyk* wyprzedaz* rezerwacj* zameldow* spotkani* konferencj*
        промокод* скидк* купон* акци* подар* распродаж* корзин* бонус* сертификат* кэшбэк* касс* выигр*
        бронирован* брони бронь рейс* пассажир* конференц* заезд*
        знижк* акці* подарун* розпродаж* кошик* бронюван* зустріч* пасажир*
        indirim* kampanya* firsat* hediye* sepet* promosyon* davet* rezervasyon* ucus* yolcu* toplanti* katil* magazada
        rabattkod* erbjudand* sleva* zlava* kedvezmeny* reducere diskon khuyen_mai
        优惠 折扣 促销 红包 礼品 礼券 立减 兑换 邀请码 推荐码 满减 优惠券 代金券 預訂 预订 预定 订房 訂房 航班 酒店 登机 入住
        優惠 禮物 禮券 折價 兌換 会议 會議 入会 旅客
        クーポン 割引 セール ギフト 特典 プロモ キャンペーン 紹介 店頭 予約 搭乗 宿泊 チェックイン ミーティング 会議
        쿠폰 할인 프로모션 세일 기프트 상품권 적립 이벤트 추천 매장 예약 탑승 숙박 체크인 회의 미팅
        خصم قسيمة حجز
    """,
    Cue.OLD: """
        old previous earlier expired invalid former alte alten alter vorherige* fruhere* ungultig* ancien* precedent*
        anterior* vorige poprzedni* stary предыдущ* стар* попередн* eski onceki 旧 以前 之前 이전 e_g z_b
    """,
    Cue.UNIT: """
        usd eur gbp chf pln try inr jpy cny krw rub uah brl mxn czk sek nok dkk huf ron aud cad euro euros dollar* pound*
        zl zloty* kr kc руб* р грн ft lei tl lira reais pesos
        minute* min mins hour hours hrs day days week* month* year* second* sec secs
        stunde* tage tagen tag sekunden monate jahre uhr heure* jours jour mois ans hora horas dia dias mes meses anos
        ore ora giorni giorno mesi anni uur dagen dag maanden jaar godzin* dni dzien lat
        минут* час* дней дня день секунд* лет год* хвилин* годин* днів dakika* saat gun ay yil
        points point punkte puntos pontos punti punten балл* puan zeilen lines
        people persons users members followers likes views items times steps words articles km kg g cm mm ml px pt gb mb
        kunden personen personnes clients personas pessoas persone mensen osob* человек людей kisi
        元 円 원 人民币 分钟 分鐘 小时 小時 時間 日 秒 年 月 회 시간 일 명 개 个 個 件 人
    """,
    Cue.IS: """
        is are was reads ist lautet lauten est es e luidt to jest это есть це ar je este on adalah la er
        是 为 為 は が 는 은 이 هو
    """,
}

LEXICON = Lexicon(_WORDS, endings=("code", "codes", "kode", "kod", "koden", "pin", "код"), ending_cue=Cue.CODE)

"""The words that tell a code from other numbers, in the languages of sign-up mail; what follows is in ``finder.py``.

How to write them is told in cues. The lines of a cue: English, German, French, Spanish, Portuguese, Italian, Dutch,
Polish, Russian, Ukrainian, Turkish; then their neighbours; Chinese, Japanese, Korean; others.
"""
# ruff: noqa: RUF001 (Cyrillic letters look like Latin ones, and are not)

from tmpmaild.findings.codes.cues import Cue
from tmpmaild.findings.lexicon import Lexicon

_WORDS = {
    Cue.OTP: """
        otp otps totp motp mtan smstan pushtan phototan chiptan
        einmalcode einmalpasswort einmalkennwort engangspassord engangslosenord kertakayttosalasana
        haslo_sms sms_haslo sms_пароль sms_password sms_passwort dogrulama_sifresi dogrulama_sifreniz onay_sifresi
        onay_sifreniz 验证密码 驗證密碼 認証パスワード 인증비밀번호
        动态码 動態碼 取件码 取件碼 取货码 取貨碼 提货码
    """,
    Cue.CODE: """
        code codes passcode passcodes pin pincode pins passphrase
        tan tans zahlenkombination ziffernfolge zahlencode kenncode kennzahl sicherheitsnummer prufnummer
        kontrollnummer smscode emailcode mailcode cijfercode
        codigo codigos clave claves codice codici kod kody kodu kodem kodom kodow kode koden kodet kodi kodo
        код кода коду кодом коде коды кодов коди кодів пин пинкод пін
        kodun kodunu kodunuz kodunuzu kodunuzdur kodudur kodla koduyla kodumuz sifreniz sifreniz*
        koder koda kodas kods koodi* kood cod codul codului kodot kodja κωδικος κωδικο κωδικου
        ma_so ma_xac ma_otp ma_dang ma_bao
        代码 代碼 口令 码 碼 コード 暗証番号 確認番号 코드
        رمز الرمز کد كود קוד कोड ओटीपी รหัส
    """,
    Cue.COMPOUND: """
        token tokens chave
    """,
    Cue.PASSWORD: """
        password passwords passwort* kennwort* passe contrasena* senha senhas palavra_passe wachtwoord* haslo hasla
        hasel
        пароль пароля паролем пароли sifre sifresi sifrenizi parola* losenord* adgangskode* passord* salasana* heslo
        hesla jelszo* sandi mat_khau 密码 密碼 パスワード 비밀번호 مرور סיסמה पासवर्ड
    """,
    Cue.ONCE: """
        one_time onetime single_use temporary dynamic
        einmal* temporare* vorubergehend* usage_unique temporaire provisoire un_solo solo_uso unico_uso temporal
        dinamica
        uso_unico utilizacao_unica utilisation_unique temporari* monouso uso_singolo temporane* eenmalig* tijdelijk*
        jednoraz* tymczas*
        одноразов* временн* тимчас* tek_kullanimlik tek_seferlik seferlik kullanimlik gecici engangs* tillfallig*
        midlertidig* kertakaytto* jednorazov* docasn* egyszer* ideiglenes*
        一次性 动态 動態 临时 臨時 ワンタイム 仮 일회용 임시
    """,
    Cue.VERIFY: """
        verif* authentic* log_in logging_in logon login* sign_in signin signing_in signed_in sign_up signup signing_up
        two_factor two_step multi_factor mfa identity reset resetting recover* magic pairing unlock* guard
        courier driver
        authentifi* anmeld* anzumelden einlogg* einzuloggen zweifaktor* zweistuf* identi* zuruckgesetz* zurucksetz*
        zuruckzusetzen wiederherstell* ausweis* abhol* kurier* fahrer* ubergabe*
        chauffeur* conductor repartidora motorista autista
        connexion connecter connectez connecte double_facteur double_authentification deux_etapes deux_facteurs
        reinitialis* livreur* retrait
        sesion dos_pasos dos_factores doble_factor doble_autenticacion autentic* restablec* recuper* repartidor*
        mensajero recogida
        sessao entrar duas_etapas dois_fatores dois_factores redefin* entregador* estafeta* retirada levantamento
        due_fattori due_passaggi doppia_autenticazione reimpost* ripristin* ritir* corriere fattorino
        inlog* ingelogd loggen aanmeld* aan_melden in_loggen tweestaps* twee_staps tweefactor* herstel* afhaal* afhal*
        bezorger* koerier*
        weryfik* uwierzyteln* zalog* logow* dwuetap* dwuskladnik* tozsam* resetow* zresetow* odzysk* odbior* odebra*
        верифи* провер* аутентиф* вход* войти войд* двухфактор* двухэтап* личност* сброс* восстан* курьер* получени*
        выдач* самовывоз* водител*
        верифі* перевір* автентиф* вхід* входу увійти увійд* двофактор* двоетап* скид* віднов* кур отриман* отримати
        видач* водій водіє* dogrula* kimlig* kimlik* giris* oturum* iki_asamali iki_adimli iki_faktorlu sifirla* kurye*
        teslim* inlogg* logga tvafaktor* log_ind logg_inn totrins* tofaktor* kirjaut* tunnist* overen* overov* overit*
        prihlas* prijav* ellenorz* hitelesit* belep* bejelentk* autentif* επαληθ* συνδεσ*
        verifikasi masuk xac_minh xac_thuc dang_nhap
        验证 驗證 校验 认证 認證 登录 登入 登陆 登錄 身份 身分 重置 重設 找回 绑定 綁定 取件 取货 取貨 提货 快递员
        外送員 認証 検証 ログイン サインイン 本人 再設定 受け取り 受取 配達員 ドライバー
        인증 로그인 본인 재설정 수령 배송기사
        تحقق دخول مصادقة تأیید ورود אימות כניסה सत्यापन लॉगिन ยืนยัน
    """,
    Cue.DELIVERY: """
        delivery pickup pick_up collection handover zustell* liefer* abhol* livraison remise retrait entrega recogida
        retirada levantamento consegna ritir* bezorg* afhaal* afhal*
        oppnings* abnings* hente* hamtnings* lever* offnungs* ophaal* doreczen* odbior* выдач* получени* отриман* видач*
        dostaw* доставк* вручени* teslimat 取件 取货 取貨 提货 配送 收货 收貨 配達 受け取り 受取 배송 수령
    """,
    Cue.CONFIRM: """
        confirm* security secure signing set_up setting_up activat* access accessing validation validate
        register registering registration
        bestatig* sicherheit* aktivier* freischalt* freigabe* freigeben freizugeben sicherheitsnummer prufnummer
        kontrollnummer zugang* zugriff* registrier* einricht* einzuricht*
        validier* pruf* kontroll* controle*
        securite activation activer activez acces acceder accedez valider validez inscri* deverrouill*
        segurid* activac* activar activa acceso accede validac* validar registr* desbloque*
        firma* assinat* signature signatur* unterschrift* podpis* подпис* підпис* imza* 签名 簽名 署名 서명
        seguranc* ativ* acess* aceder aceda cadastr* regist*
        assin* conferm* sicurezza attiv* accesso accedere accedi convalid* iscri* sblocc*
        onderteken* bevestig* beveilig* veiligheid* activer* toegang* ontgrendel*
        potwierdz* bezpiecz* aktyw* dostep* rejestr* zarejestr* odblok*
        подтверд* подтвержд* безопасн* активац* активир* доступ* регистр* зарегистр* разблок*
        підтверд* безпек* активу* реєстр* зареєстр* розблок*
        onay* guvenlik* aktivasyon* etkinlestir* erisim* kayit* kayd* uyelik* uyeligi*
        bekraft* bekreft* bekraeft* bekræft* sakerhet* sikkerhed* sikkerhet* aktivera* godkann* godkend* vahvist*
        potvrd* potvrz* potrdit* bezpecnost* aktivac* megerosit* biztonsag* securitate επιβεβαι* ασφαλει*
        konfirmasi keamanan xac_nhan bao_mat
        确认 確認 安全 注册 註冊 激活 啟用 启用
        確認番号 アクティベーション セキュリティ 登録 アクセス 有効化
        확인 보안 가입 등록 접속 활성화
        تأكيد أمان تفعيل امنیتی אבטחה אישור सुरक्षा पुष्टि
    """,
    Cue.ENTER: """
        enter entering use using type typing input copy paste provide tell give insert key_in punch_in present
        eingeben eingibst ein_gib gib geben einzugeben verwende verwenden nutze nutzen benutze benutzen tippe tippen
        eintippen nenne nennen kopiere kopieren eintragen trage tragen
        saisi saisissez saisir entrez entrer utilisez utiliser indiquez indiquer copiez copier recopiez donnez donner
        dites collez communiquez communiquer tapez renseignez
        ingresa ingrese ingresar introduce introduzca introducir usa usar utilice utiliza utilizar escribe escriba
        escribir copia indica indique comparte anota introduzcala introduzcalo pon teclea teclee pega dale dile digale
        insira inserir digite digitar introduza introduzir utilize informe informar copie escreva insere cole diga
        inserisci inserisca inserire digita digitare utilizza utilizzare comunichi comunica comunicare mostra
        comunicagli digli incolla scrivi digiti
        voer vul gebruik typ toon plak geef invoeren
        wpisz* wpisac wprowadz wprowadzic wprowadzisz uzyj podaj przepisz skopiuj wklej
        введите введи ввести используйте используй укажите назовите сообщите покажите продиктуйте
        впишите вставьте скажите вводите
        введіть використайте використовуйте вкажіть назвіть покажіть впишіть вставте скажіть повідомте
        girin giriniz girerek gir yaz kullan kullanin kullaniniz kullanarak yazin soyleyin soyleyiniz
        ange anvand skriv indtast brug tast bruk syota kayta zadejte zadajte pouzijte uporabite upotrijebite unesite
        vnesite introduceti folositi masukkan gunakan nhap
        输入 輸入 使用 填写 填寫 凭 憑 键入 入力 お伝え 입력 사용 누르 눌러 أدخل ادخل استخدم הזן दर्ज
    """,
    Cue.ENTERED: """
        yaz yazin girin giriniz gir kullanin soyleyin 入力 입력
    """,
    Cue.HINT: """
        minute minutes min mins share sharing ignore disregard request requested anyone nobody seconds recognise
        recognize asked_for never_ask
        minuten teile teilen weitergeb* ignorier* angeforder* niemand* minuto minutos minuti
        nessuno nadie ninguem personne
        partag* ignor* demande* compart* solicit* partilh* compartilh* condivid* richiest*
        deel vervalt negeer* aangevraagd minut* udostepn* zignoruj* nikomu
        минут* сообща* передава* запраш* проигнор* никому хвилин* повідомл* ігнор* нікому dakika* paylas* kimse*
        分钟 分鐘 泄露 洩漏 告知 他人 忽略 转发 分以内 分間 第三者 心当たり 分内 分以內 이내 타인 무시 دقائق دقيقة
    """,
    Cue.LASTS: """
        valid validity expire* expiring gultig* verliert verfallt expir* valable* valido* valida* valide* caduc* scad*
        geldig* wazn* действ* дійсн* gecerli* giltig* gaelder gælder gjelder voimassa platn* ervenyes* 有效 有効 유효
        صالح
    """,
    Cue.AUTHORIZE: """
        authoris* authoriz* auth approv* autoris* autoriz* autorizz* autoryz* авториз* 授权 授權 承認 승인
    """,
    Cue.LABEL: """
        order orders invoice receipt ticket case reference ref tracking shipment parcel package customer client member
        membership policy contract ending ends phone telephone tel fax call calling mobile hotline helpline zip
        postcode zipcode
        postal barcode bar qr sort iban bic swift vat tax fiscal registered company error status exit http version build
        model serial sku item article product style batch lot flight seat gate room door floor suite apt street page
        line commit pull issue incident class course lesson dress country area source license licence charity since
        copyright meter plate vehicle location terminal merchant employee student patient file dossier box rfc iso
        return
        last_digits last_four last_six letzten_ziffern derniers_chiffres ultimos_digitos ultime_cifre laatste_cijfers
        ostatnie_cyfry последние_цифры останні_цифри lizenz* hersteller*
        contador* compteur* contatore* zahler* meterstand* licznik* счетчик* лічильник* sayac*
        colour color hex po survey cart subscription balance hs morse server ip port fca ssn zone branch bank rental
        bestell* auftrag* rechnung* kunden kunden* vorgang* sendung* paket* referenz* aktenzeichen vertrag* endet
        endziffer*
        telefon* rufnummer* handynummer plz postleitzahl* postfach hrb hra ust* steuer* mitglied* personal* fehler*
        artikel* produkt* serien* zimmer* raum* tur turcode zangenabdruck* abonnement* mieter* saldo servicecode
        servicenummer geburtsdatum leitzahl bankleitzahl
        commande* facture* suivi colis contrat* finissant terminant appelez erreur* produit* siret siren billet
        voiture place adherent* piece guichet
        pedido* factura* cliente* seguimiento rastreo envio referencia contrato* terminada termina telefono llama*
        producto* articulo* cif nif cita expediente socio entrada
        encomenda* fatura* rastreio rastreamento telefone ligue erro produto artigo cnpj cpf cep atendimento ingresso
        ordine ordini fattura* spedizione tracciamento contratto chiama* cap errore prodotto avviso biglietto pratica
        postale fiscale
        bestelling* factuur* klant* zending* pakket* bel telefoon* kvk foutcode fout* lidnummer trace track
        zamowien* faktur* klient* przesylk* sledzeni* umow* zadzwon pocztow* blad bledu krs nip regon domofon* infolin*
        bilet* wniosk* sali
        заказ* счет клиент* отслежив* накладн* договор* телефон* тел звоните почтов* индекс* ошибк* товар* инн огрн
        трек* обращени* статья артикул* документ* посылк* билет* отправлени* налог* домофон*
        замовлен* рахун* клієнт* відстеж* поштов* індекс* помилк* звернен* посилк* квит*
        siparis* musteri* kargo* takip* gonderi* hata* urun* posta* biten vergi* mersis
        kund* objednav* zakazn* zasilk* zasielk* rendeles* comand* puh* postnummer*
        订单 訂單 快递单 运单 發票 发票 客户 客戶 会员 會員 电话 電話 热线 熱線 致电 致電 邮编 邮政 错误 商品 尾号
        尾數 股票
        税号 备案 证件 客服 货号 编码 編碼 条码 條碼 条形码 二维码 二維碼 扫码 掃碼 尺码 数码 數碼 源码 源代码 区号
        末四码 末四碼 后四位 後四碼 取票 门票 車票 机票
        注文 お問い合わせ 問い合わせ 伝票 会員 郵便 エラー 受付番号 登録番号 バーコード QRコード 追跡 金融機関 チケット
        주문 송장 운송장 회원 전화 우편 오류 상품 사업자 고객센터 문의 바코드 계좌번호 티켓 طلب هاتف הזמנה טלפון
    """,
    Cue.NUMBER: """
        number numbers no n nr num numero nummer nummers numer numeru numery numara* номер* numar cislo szam numer*
        id ids 番号 번호 号码 號碼 编号 編號 单号 號 号
    """,
    Cue.DIGITS: """
        digits ziffern zahl zahlen chiffres cifras digitos numeros cifre numeri cijfers getal sequenza sequenz cyfry
        cyfr цифры числа число цифри rakam* 数字 數字 숫자
    """,
    Cue.FOLLOWING: """
        following below above folgende folgenden folgender suivant suivants siguiente siguientes seguinte seguintes
        seguente seguenti volgende onderstaande nastepujacy nastepujaca ponizszy ponizsza следующий следующие следующее
        наступний наступне asagidaki 以下 次の 下記 다음 아래 如下 下列
        arriba qui_sopra sopra hierboven powyzszy powyzsza yukaridaki 上記 上面 위의
    """,
    Cue.PARCEL: """
        parcel parcels package packages courier order orders collect
        paket* paketfach sendung* packstation* abholstation*
        colis livreur* paquete* repartidor* encomenda* entregador* pacco pacchi spedizione pakket* bezorger*
        paczka paczke paczki paczkomat* przesylk* kurier*
        посылк* постамат* курьер* отправлени* посилк* поштомат* кур kargo* kurye*
        包裹 快递 快遞 快递柜 快遞櫃 智能柜 智取櫃 取件柜 丰巢 荷物 宅配 宅配ボックス 宅配ロッカー 택배 택배함
        무인택배함 물품
    """,
    Cue.PREMISES: """
        locker lockers door doors gate gates garage alarm wifi wi_fi wlan ssid network hotspot gym parcel_machine
        schließfach* fach paketfach haustur* wohnungstur* tor gartentor schlusseltresor schlusselbox packstation*
        casier casiers consigne portail porte immeuble boite_a
        taquilla* puerta casillero* cacifo* armario portao porta condominio
        sportello armadietto portone cancello cassetta
        kluis* sleutelkluis* huisje poort deur voordeur
        skrytk* drzwi drzwiach brama bramy furtk* paczkomat*
        ячейк* двер* подъезд* калитк* постамат* комірк* поштомат* вайфай dolap dolabi kapi kapisi
        门禁 大门 无线 快递柜 快遞櫃 智能柜 智取櫃 取件柜 丰巢
        玄関 ロッカー 宅配ボックス 宅配ロッカー 현관 출입 보관함 택배함 무인택배함 와이파이
    """,
    Cue.OPENING: """
        opening open offnen ouverture ouvrir apertura abrir abertura aprire openen otwarci* otworz* открыти*
        открыть відкритт* відкрити acmak 开柜 開櫃 开箱 開箱 开门 開門 解錠 開錠 開扉 열림 개방
    """,
    Cue.THING: """
        account accounts card cards device email mail e_mail sms konto karte* compte comptes carte cuenta* tarjeta*
        conta contas cartao conto carta rekening* kaart konta karty karta аккаунт* карт* картк* hesab* kart*
        账号 帳號 账户 帳戶 卡 アカウント カード 계정 카드
    """,
    Cue.TRADE: """
        % ％ coupon* voucher* promo* discount* off checkout gift* reward* cashback redeem* redemption sale deal deals
        referral* refer win prize prizes raffle gewinn* gagnez gana gagner ganar vinci wygraj выигр* виграй*
        invite invites in_store loyalty points
        booking* reservation* reserved itinerary flight flights check_in checkin guest* boarding pnr passenger* nights
        rental meeting* webinar* webex dial dial_in dialling conference participant* host audio join_meeting join_zoom
        join_by join_from subtotal terminal merchant
        gutschein* rabatt* aktion* angebot* einlosen einlos* warenkorb geschenk* schenk* pramie* filiale spar spare
        sparen sparst buchung* reservier* flug* anreise* abreise ubernacht* besprechung* konferenz* einwahl* teilnehm*
        promotion* remises une_remise de_remise remise_de remise_exceptionnelle rabais reduction* cadeau* offre* offrons
        panier solde soldes parrain* economis* en_magasin vol vols voyage* embarquement reunion* visioconf* participer
        cupon* descuento* oferta* regal* rebaja* ahorr* carrito canje* referid*
        recepc* reserva* vuelo* viaje* embarque localizador huesped* conferencia
        cupom cupons cupao desconto* brinde presente resgat* carrinho na_loja voo voos hospede* reuniao
        sconto sconti scont* buono buoni offert* saldi carrello risparmi* riscatt* in_negozio
        prenotazion* volo voli imbarco riunione ospiti
        korting* actie acties actiecode waardebon aanbieding* bespaar winkelmand* afrekenen kassa inwissel*
        boeking* reserver* vlucht* vergadering* deelnemen
        rabat* kupon* promoc* znizk* prezent* podarunk* okazj* koszyk* wyprzedaz* rezerwacj* zameldow*
        spotkani* konferencj*
        промокод* скидк* купон* акци* подар* дарим распродаж* корзин* бонус* сертификат* кэшбэк* касс*
        бронирован* брони бронь рейс* пассажир* конференц* заезд*
        знижк* акці* подарун* розпродаж* кошик* бронюван* зустріч* пасажир*
        indirim* kampanya* firsat* hediye* sepet* promosyon* davet* rezervasyon* ucus* yolcu* toplanti* katil* magazada
        rabattkod* erbjudand* sleva* zlava* kedvezmeny* reducere diskon khuyen_mai
        收于 收盘 收市 优惠 折扣 促销 红包 礼品 礼券 立减 兑换 邀请码 推荐码 满减 优惠券 代金券 預訂 预订 预定 订房 訂房
        航班 酒店 登机 入住 優惠 禮物 禮券 折價 兌換 会议 會議 入会 旅客
        クーポン 割引 セール ギフト 特典 プロモ キャンペーン 紹介 店頭 予約 搭乗 宿泊 チェックイン ミーティング 会議
        쿠폰 할인 프로모션 세일 기프트 상품권 적립 이벤트 추천 매장 예약 탑승 숙박 체크인 회의 미팅 خصم قسيمة حجز
    """,
    Cue.OLD: """
        old previous earlier expired invalid former alte alten alter vorherige* fruhere* ungultig* ancien* precedent*
        anterior* vorige poprzedni* stary предыдущ* стар* попередн* eski onceki 旧 以前 之前 이전
        e_g z_b no_longer not_valid nicht_mehr plus_valable ya_no nao_e niet_meer
    """,
    Cue.UNIT: """
        $ € £ ¥ ₹ ₽ ₺ ₴ usd eur gbp chf pln try inr jpy cny krw rub uah brl mxn czk sek nok dkk huf ron aud cad euro
        euros dollar* pound* zl zloty* kr kc руб* р грн ft lei tl lira reais pesos
        minute minutes minuten min mins hour hours hrs day days week* month* year* seconds second* sec secs
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

LEXICON = Lexicon(
    _WORDS,
    endings=("code", "codes", "kode", "kod", "koden", "koodi", "koodia", "koodisi", "pin", "код"),
    ending_cue=Cue.COMPOUND,
)

PLAIN_WORDS = frozenset(
    """
    your my our this that the a an following below above new for to you we in on from with and at by one here
    continue proceed go on fortfahren weiter dein deinen deine deinem ihr ihren ihre ihrem euer der den die das dem
    diesen dieser dieses diesem folgenden folgende
    folgender nachstehenden untenstehenden unten ein einen einem neuer neuen fur zum zur um mit
    votre vos ton ta le la les ce cet un une suivant pour dessous nouveau ci que vous est
    tu su el este una siguiente para nuevo abajo es que
    seu sua teu o os esse seguinte novo abaixo
    tuo suo il lo questo seguente per nuovo che ti dispositivo
    je jouw uw de het deze een volgende voor onderstaande nieuwe om die we
    twoj twojego ten tego ponizszy nastepujacy nowy do dla na ponizej i
    ваш ваша твой этот этого следующий новый для на из ниже и в
    цей твій наступний новий та у нижче
    оператору сотруднику продавцу кассиру співробітнику касиру pracownikowi sprzedawcy
    bu asagidaki icin yeni
    din ditt er ert vas tento az ez aceasta dumneavoastra anda
    digit digits stellige stelligen stelliger chiffres chiffre digitos digito cifre cifras cijferige zescijferige
    cyfrowy cyfr значный цифр haneli
    """.split(),
)
"""Words that may be next to CODE without making it another kind of code."""

DETERMINERS = frozenset(
    """
    the this following above new die diese dieser folgende la le ce cette el este esta o este il questo het dit de deze
    ten tu tego этот цей bu su
    """.split(),
)
"""Words before "number" that do not tell whose or what number it is."""

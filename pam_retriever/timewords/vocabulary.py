"""The words for times in five languages, each with a code for the grammar.

Each class of words has a letter. So a text becomes a short string, and the rules of ``grammar`` are regular expressions
over it, the same for every language:

    M month  W weekday  U unit  N number  O ordinal  Y year  D date in figures  C clock  S season  H holiday
    R day counted from today  P part of the day  Q quarter  K decade  G half of the year
    L last  V past (up to now)  X next  T this  A ago  F from now  w few  v early, mid, late  e earlier, later
    t article  o of  i in  n on  h at  r for  b between  & and  f from  u to  s since  B before  a after  g around
    q until  j onwards  E every  z, y, p before, since, after (after the time, Chinese)
    k now, as the end of a range
    d days or seasons ("two Tuesdays ago")  c a day of the calendar ("this time last year")  J two years ("2022/23")
    x word  Z word with a capital  , comma  . end of a clause  # text attached to figures or to other marks
"""

from __future__ import annotations

_ENGLISH = """
M1: january jan|M2: february feb|M3: march mar|M4: april apr|M5: may|M6: june jun|M7: july jul|M8: august aug
M9: september sept sep|M10: october oct|M11: november nov|M12: december dec
W0: monday mon|W1: tuesday tue tues|W2: wednesday wed weds|W3: thursday thu thur thurs|W4: friday fri|W5: saturday sat
W6: sunday sun
Uminute: minute minutes min mins|Uhour: hour hours hr hrs|Uday: day days
Uweek: week weeks wk wks|Umonth: month months mos mo mth mths|Uyear: year years yr yrs
Uquarter: quarter quarters qtr|Udecade: decade decades|Ucentury: century centuries
Uweekend: weekend weekends week-end wknd wkend
Uhalf: half|N2 Uweek: fortnight a_fortnight|C12h: noon midday lunchtime|C0h: midnight
N6 Umonth: half_a_year half_year|N30 Uminute: half_an_hour half_hour|N15 Uminute: quarter_of_an_hour quarter_hour
N5 Uyear: half_a_decade|Uweek: calendar_week cw|Uyear: fiscal fiscal_year
i1 Hthe_holidays: over_the_holidays during_the_holidays
a1 Hthe_holidays: after_the_holidays|B1 Hthe_holidays: before_the_holidays|Hholy_week: holy_week
N1: one|N2: two|N3: three|N4: four|N5: five|N6: six|N7: seven|N8: eight|N9: nine|N10: ten|N11: eleven|N12: twelve
N13: thirteen|N14: fourteen|N15: fifteen|N16: sixteen|N17: seventeen|N18: eighteen|N19: nineteen|N20: twenty|N30: thirty
O1: first|O2: second latter|O3: third|O4: fourth|O5: fifth|O-1: final|O6: sixth|O7: seventh|O8: eighth|O9: ninth
O10: tenth|O11: eleventh|O12: twelfth|O13: thirteenth|O14: fourteenth|O15: fifteenth|O16: sixteenth|O17: seventeenth
O18: eighteenth|O19: nineteenth|O20: twentieth|O21: twenty-first|O22: twenty-second|O23: twenty-third|O24: twenty-fourth
O25: twenty-fifth|O26: twenty-sixth|O27: twenty-seventh|O28: twenty-eighth|O29: twenty-ninth|O30: thirtieth
O31: thirty-first
S0: spring|S1: summer|S2: autumn fall|S3: winter
Hchristmas: christmas christmas_day|Hchristmas_eve: christmas_eve|Hnew_year: new_year's_day new_year's new_year
Hnew_year's_eve: new_year's_eve nye|Hhalloween: halloween|Hboxing_day: boxing_day|Hblack_friday: black_friday
Hcyber_monday: cyber_monday
Hst_patrick's_day: st_patrick's_day st_._patrick's_day st_paddy's_day|Hpentecost: pentecost whit_sunday
Hvalentine: valentine's_day valentine's valentine_day vday v-day|Hjuly_4: fourth_of_july 4th_of_july independence_day
Hthanksgiving: thanksgiving thanksgiving_day|Hlabor_day: labor_day labour_day|Hmemorial_day: memorial_day
Heaster: easter easter_sunday|Heaster_monday: easter_monday|Hgood_friday: good_friday|Hash_wednesday: ash_wednesday
Hmaundy_thursday: maundy_thursday|Hpalm_sunday: palm_sunday|Hshrove_tuesday: shrove_tuesday pancake_day mardi_gras
Hascension: ascension_day|Hmother's_day: mother's_day|Hfather's_day: father's_day
Hmlk_day: mlk_day martin_luther_king_day|Hpresidents'_day: president's_day|Hjuneteenth: juneteenth
Hapril_fools: april_fools april_fool's_day|Hwomen's_day: women's_day
Hnovember_11: veterans_day remembrance_day
Hcolumbus_day: columbus_day|Hbonfire_night: bonfire_night guy_fawkes_night|Hall_saints: all_saints_day
Hthe_holidays: holiday_season christmas_holidays christmas_break|Hthe_holidays: turn_of_the_year
Hchinese_new_year: chinese_new_year lunar_new_year
Hmid-autumn: mid-autumn_festival|Hdragon_boat: dragon_boat_festival|Hdiwali: diwali|Hholi: holi|Hpurim: purim
Hpassover: passover|Hrosh_hashanah: rosh_hashanah|Hyom_kippur: yom_kippur|Hsukkot: sukkot|Hhanukkah: hanukkah chanukah
Heid: eid eid_al-fitr|Heid_al-adha: eid_al-adha
R-1: yesterday yday ystdy yest ystd yst yesterdays|R0: today todays
R1: tomorrow tmrw tommorow tmr tmw tomo tomorrows|R-2: day_before_yesterday|R2: day_after_tomorrow
Pmorning: morning morn am|L1 Pnight: overnight|B1: pre_-|a1: post_-|Pafternoon: afternoon arvo pm|Pevening: evening eve
Pnight: night nite|R0 Pnight: tonight tonite
R-2 Pnight: the_night_before_last|w1 Uday A1: the_other_day the_other_night the_other_evening|n1 Uweekend: all_weekend
Pdawn: early_hours small_hours
K2000: noughties|vend T1 Uyear: eoy|vend T1 Umonth: eom|vend T1 Uweek: eow|vend Uyear: year-end
vend Umonth: month-end|vend: close_of
w1 Uweekend A1: the_other_weekend
Hthe_holidays: christmas_period christmas_season festive_season festive_period
V1 w1 Uday: recent_days|V1 w1 Uweek: recent_weeks|V1 w1 Umonth: recent_months|V1 w1 Uyear: recent_years
w1 Uweek A1: the_other_week|eearlier T1 Uyear: year_to_date ytd
eearlier T1 Uquarter: quarter_to_date qtd|eearlier T1 Uweek: week_to_date wtd
eearlier T1 Umonth: month_to_date mtd|c3: this_time same_time|c0: this_day this_very_day
L1: last previous prior prev lst just_gone|V1: past|t1 V1: these_past these_last
X1: next nxt coming upcoming following|T1: this current|L2: before_last last_to_last
X2: after_next
A1: ago back earlier_than_now or_so_ago|F1: from_now hence|w1: few several some|w2: couple coupla
vearly: early|vmid: mid middle_of middle|vlate: late
vbegin: beginning_of start_of begin_of beginning start|vend: end_of end
eearlier: earlier older sooner|elater: later newer
erest: rest_of remainder_of|fopen: no_earlier_than not_before starting_from
k: now right_now the_present present
t1: the a an|o1: of|i1: in during throughout within over in_about in_around in_roughly
n1: on|h1: at|r1: for|b1: between|&1: and or vs versus|f1: from
u1: to through thru until till til – — -|s1: since|a1: after later_than more_recent_than
aage: newer_than no_older_than not_older_than|g1: around about circa approx approx_.
B1: before prior_to preceding leading_up_to run-up_to lead-up_to earlier_than|Bage: older_than
q1: by up_to up_to_and_including no_later_than up_until
j1: onward onwards|y1: to_date|E1: every each every_other every_second|x: starting commencing ending ended
x: last_name last_names last_minute last_resort next_door next_to
"""
_GERMAN = """
M1: januar jan jänner|M2: februar feb|M3: märz mär mrz|M4: april apr|M5: mai|M6: juni|M7: juli|M8: august aug
M9: september sept sep|M10: oktober okt|M11: november nov|M12: dezember dez
W0: montag|W1: dienstag|W2: mittwoch|W3: donnerstag|W4: freitag|W5: samstag sonnabend|W6: sonntag
n1 W0: am_mo|n1 W1: am_di|n1 W2: am_mi|n1 W3: am_do|n1 W4: am_fr|n1 W5: am_sa|n1 W6: am_so
Uminute: minute minuten|Uhour: stunde stunden|Uday: tag tage tagen|Uweek: woche wochen kw kalenderwoche
Umonth: monat monate monaten monats|Uyear: jahr jahre jahren jahres geschäftsjahr geschäftsjahres
Uhalf: halbjahr halbjahres hälfte|N18 Umonth: anderthalb_jahren eineinhalb_jahren|N6 Umonth: halben_jahr halbes_jahr
N30 Uminute: halben_stunde halbe_stunde|N15 Uminute: viertelstunde|N45 Uminute: dreiviertelstunde
N90 Uminute: anderthalb_stunden eineinhalb_stunden|N10 Uday: anderthalb_wochen eineinhalb_wochen
N45 Uday: anderthalb_monaten eineinhalb_monaten
B1: vor_etwa vor_ungefähr vor_rund vor_gut vor_knapp vor_circa vor_ca vor_ca_. vor_fast vor_über
B1: vor_mehr_als vor_weniger_als
c3: diese_zeit dieser_zeit selben_zeit gleichen_zeit dieselbe_zeit gleiche_zeit
k: jetzt|eearlier: früher|elater: später danach
i1 Hthe_holidays: zwischen_den_jahren|Hthe_holidays: jahreswechsel
Hchristmas_days: weihnachtstage weihnachtstagen weihnachtsfeiertage weihnachtsfeiertagen
Hchristmas: weihnachtstag ersten_weihnachtstag ersten_weihnachtsfeiertag
Hboxing_day: zweiten_weihnachtstag zweiten_weihnachtsfeiertag
vlate S1: spätsommer|vearly S1: frühsommer|vmid S1: hochsommer|vlate S2: spätherbst|vearly S2: frühherbst
x: guten_morgen guten_abend guten_tag gute_nacht
T1 Uyear: heuer
C12h: mittag mittags|C0h: mitternacht|w1 Uday A1: neulich
Uquarter: quartal quartals|Uweekend: wochenende|Udecade: jahrzehnt|Ucentury: jahrhundert
N1: eins|N2: zwei|N3: drei|N4: vier|N5: fünf|N6: sechs|N7: sieben|N8: acht|N9: neun|N10: zehn|N11: elf|N12: zwölf
N13: dreizehn|N14: vierzehn|N15: fünfzehn|N16: sechzehn|N17: siebzehn|N18: achtzehn|N19: neunzehn|N20: zwanzig
N30: dreißig
O1: erste ersten erster erstes|O2: zweite zweiten zweiter zweites|O3: dritte dritten dritter drittes
O4: vierte vierten vierter viertes
O5: fünfte fünften
O6: sechste sechsten|O7: siebte siebten|O8: achte achten|O9: neunte neunten|O10: zehnte zehnten
S0: frühling frühjahr|S1: sommer sommermonate sommermonaten sommerferien
S2: herbst|S3: winter wintermonate wintermonaten
Hchristmas_days: weihnachten|Hchristmas_eve: heiligabend|Hnew_year's_eve: silvester|Hnew_year: neujahr neujahrstag
Heaster: ostern
Hgood_friday: karfreitag|Heaster_monday: ostermontag|Hpentecost: pfingsten|Hhalloween: halloween
Heaster: ostersonntag|Hwhit_monday: pfingstmontag|Hpentecost: pfingstsonntag|Hmaundy_thursday: gründonnerstag
Hascension: himmelfahrt christi_himmelfahrt vatertag|Hmother's_day: muttertag|Hcarnival_monday: rosenmontag
Hash_wednesday: aschermittwoch|Hcorpus_christi: fronleichnam|Hst_nicholas: nikolaustag
h1 Hst_nicholas: an_nikolaus|Hassumption: mariä_himmelfahrt
Hoctober_3: tag_der_deutschen_einheit|Hall_saints: allerheiligen|Hepiphany: dreikönigstag heilige_drei_könige
Hvalentine: valentinstag|Hthe_holidays: weihnachtsferien|Hmay_1: tag_der_arbeit
R-1: gestern|R0: heute|R1: morgen|R-2: vorgestern|R2: übermorgen
Pmorning: früh vormittag vormittags morgens|Pafternoon: nachmittag nachmittags|Pevening: abend abends
Pnight: nacht nachts
L1: letzte letzten letzter letztes letztem vergangene vergangenen vergangenes vorige vorigen voriges
L2: vorletzte vorletzten vorletzter vorletztes vorletztem
X1: nächste nächsten nächster nächstes kommende kommenden|X2: übernächste übernächsten übernächstes
T1: diese diesen dieser dieses diesem im_laufe_der im_laufe_des im_laufe_dieser im_laufe_dieses
w1: einige einigen wenigen|w2: paar|vmid: mitte|vbegin: anfang|vend: ende
t1: der die das den dem ein eine einen einem einer eines|o1: des
i1: im in während binnen innerhalb innerhalb_von|n1: am|h1: an zu zum zur|r1: für über
b1: zwischen
&1: und oder|f1: von vom|fopen: ab|u1: bis – — -|s1: seit|B1: vor|Bage: älter_als
a1: nach|aage: neuer_als jünger_als|q1: bis_einschließlich|g1: um gegen
E1: jeden jede jedes jeder
"""
_FRENCH = """
M1: janvier janv jan|M2: février févr fév|M3: mars|M4: avril|M5: mai|M6: juin|M7: juillet|M8: août aout
M9: septembre sept
M10: octobre oct|M11: novembre nov|M12: décembre déc
W0: lundi|W1: mardi|W2: mercredi|W3: jeudi|W4: vendredi|W5: samedi|W6: dimanche
Uminute: minute minutes|Uhour: heure heures|Uday: jour jours|Uweek: semaine semaines semaine-ci|Umonth: mois mois-ci
Uyear: an ans année années|Uquarter: trimestre|Uhalf: semestre moitié demi demie quinzaine|Uweekend: week-end weekend
Ucentury: siècle|Udecade: décennie|C12h: midi|C0h: minuit|N15 Uday: quinzaine_de_jours|N30 Uminute: demi-heure
N15 Uminute: quart_d'_heure|N90 Uminute: heure_et_demie
A1: il_y_a_environ il_y_a_à_peu_près il_y_a_presque il_y_a_près_d' il_y_a_près_de il_y_a_plus_d' il_y_a_plus_de
A1: il_y_a_un_peu_plus_d' il_y_a_un_peu_plus_de il_y_a_moins_d' il_y_a_moins_de
K1990: années_quatre-vingt-dix|K1980: années_quatre-vingts années_quatre-vingt|K1970: années_soixante-dix
K1960: années_soixante
N1: un une|N2: deux|N3: trois|N4: quatre|N5: cinq|N6: six|N7: sept|N8: huit|N9: neuf
N10: dix dizaine|N11: onze|N12: douze douzaine|N13: treize|N14: quatorze|N15: quinze|N16: seize|N17: dix-sept
N18: dix-huit|N19: dix-neuf|N20: vingt vingtaine|N30: trente|N8: huitaine
O1: premier première premiers premières 1er|O2: deuxième second|O3: troisième|O4: quatrième
S0: printemps|S1: été|S2: automne|S3: hiver
Hchristmas: noël|Hchristmas_eve: réveillon_de_noël|Hnew_year: nouvel_an jour_de_l'_an|Heaster: pâques
Hhalloween: halloween|Heaster_monday: lundi_de_pâques|Hgood_friday: vendredi_saint|Hpentecost: pentecôte
Hwhit_monday: lundi_de_pentecôte|Hascension: ascension|Hassumption: assomption|Hall_saints: toussaint
Hepiphany: épiphanie fête_des_rois|Hnew_year's_eve: saint-sylvestre réveillon_du_nouvel_an|Hvalentine: saint-valentin
Hshrove_tuesday: mardi_gras|Hmother's_day_in_France: fête_des_mères|Hfather's_day: fête_des_pères
Hmay_1: fête_du_travail|Hthe_holidays: vacances_de_noël|Hchristmas_eve: veille_de_noël
Uday a1: lendemain_de lendemain_du|Uday B1: veille_de veille_du|N2 Uday B1: avant-veille_de avant-veille_du
Hrentrée: rentrée|Uweekend o1: pont_de pont_du|w1 Uday A1: autre_jour autre_soir autre_nuit|k: maintenant présent
c3: même_époque même_période même_date cette_époque cette_période pareille_époque|eearlier: plus_tôt|elater: plus_tard
R-1: hier|R0: aujourd'hui aujourd’hui|R1: demain|R-2: avant-hier|R2: après-demain
Pmorning: matin|Pafternoon: après-midi|Pevening: soir|Pnight: nuit
B1: d'_avant_le d'_avant_la d'_avant_les
L1: dernier dernière derniers dernières passé passée passés passées d'_avant précédent précédente
X1: prochain prochaine prochains prochaines qui_vient qui_suit suivant suivante suivants suivantes
L2: avant-dernier avant-dernière|T1: ce cet cette ces
w1: quelques|A1: il_y_a|F1: dans|vmid: mi milieu|vbegin: début|vend: fin
t1: le la l'|t2: les|o1: de d' des|i1: en pendant durant courant|h1: au|r1: pour|b1: entre|&1: et ou|f1: du
u1: à jusqu'à jusqu'en jusqu'au jusqu'aux – — -|s1: depuis à_partir_de à_partir_du
B1: avant antérieur_à antérieurs_à antérieure_à antérieures_à antérieurs_au antérieures_au
a1: après postérieurs_à postérieures_à|g1: vers|E1: tous chaque toutes
"""
_SPANISH = """
M1: enero ene|M2: febrero feb|M3: marzo|M4: abril abr|M5: mayo|M6: junio|M7: julio|M8: agosto ago
M9: septiembre setiembre sept sep set|M10: octubre oct|M11: noviembre nov|M12: diciembre dic
W0: lunes lun|W1: martes|W2: miércoles mié|W3: jueves jue|W4: viernes vie|W5: sábado sáb|W6: domingo
Uminute: minuto minutos|Uhour: hora horas|Uday: día días|Uweek: semana semanas|Umonth: mes meses|Uyear: año años
Uquarter: trimestre|Uhalf: semestre mitad medio media quincena|Uweekend: fin_de_semana finde weekend
C12h: mediodía|C0h: medianoche
Ucentury: siglo|Udecade: década|N30 Uminute: media_hora|N15 Uminute: cuarto_de_hora|N90 Uminute: hora_y_media
N6 Umonth: medio_año
N18 Umonth A1: hace_año_y_medio hace_un_año_y_medio
A1: hace_más_o_menos hace_casi hace_aproximadamente hace_poco_más_de hace_más_de hace_como hace_cerca_de hace_menos_de
eearlier T1 Uyear: lo_que_va_de_año lo_que_va_del_año|eearlier T1 Umonth: lo_que_va_de_mes lo_que_va_del_mes
K1990: años_noventa en_los_noventa|K1980: años_ochenta en_los_ochenta|K1970: años_setenta en_los_setenta
w1 Uday A1: el_otro_día la_otra_noche la_otra_tarde|Uday B1: víspera_de
c3: por_estas_fechas estas_fechas esta_época misma_época mismas_fechas estas_alturas
k: ahora|w2: par|j1: en_adelante|eearlier: anteriores antes|elater: posteriores después más_tarde
N1: un una uno|N2: dos|N3: tres|N4: cuatro|N5: cinco|N6: seis|N7: siete|N8: ocho|N9: nueve|N10: diez
N11: once|N12: doce|N13: trece|N14: catorce|N15: quince|N16: dieciséis|N17: diecisiete|N18: dieciocho|N19: diecinueve
N20: veinte|N21: veintiuno|N22: veintidós|N23: veintitrés|N24: veinticuatro|N25: veinticinco|N26: veintiséis
N27: veintisiete|N28: veintiocho|N29: veintinueve|N30: treinta
O1: primer primera primero primeros primeras|O2: segundo segunda|O3: tercer tercera|O4: cuarto cuarta
S0: primavera|S1: verano|S2: otoño|S3: invierno
Hchristmas: navidad|Hchristmas_eve: nochebuena|Hnew_year's_eve: nochevieja|Hnew_year: año_nuevo|Heaster: pascua
Heaster_monday: lunes_de_pascua
Hholy_week: semana_santa|Hchristmas_days: navidades|Hthe_holidays: vacaciones_de_navidad
Hgood_friday: viernes_santo|Hmaundy_thursday: jueves_santo
h1 Hepiphany: por_reyes|Hepiphany: día_de_reyes reyes_magos|Hall_saints: todos_los_santos
Hall_souls: día_de_muertos día_de_los_muertos
Hvalentine: san_valentín|Hst_john's_day: noche_de_san_juan|Hmother's_day_in_Spain: día_de_la_madre
Heaster: domingo_de_pascua|Uweekend o1: puente_de puente_del
Hhalloween: halloween|Hash_wednesday: miércoles_de_ceniza|Hpalm_sunday: domingo_de_ramos
R-1: ayer|R0: hoy|R1: mañana|R-2: anteayer antier antes_de_ayer|R2: pasado_mañana
Pafternoon: tarde por_la_tarde|Pdawn: madrugada de_madrugada|Pnight: noche por_la_noche|Pmorning: por_la_mañana
R-1 Pnight: anoche|R-2 Pnight: anteanoche antenoche
L1: pasado pasada pasados pasadas último última últimos últimas anterior
X1: próximo próxima próximos próximas siguiente siguientes que_viene que_vienen
L2: antepasado antepasada penúltimo penúltima
T1: este esta
w1: unos unas algunos algunas|A1: hace|F1: dentro_de|vmid: a_mediados_de mediados_de a_mediados_del
vbegin: a_principios_de principios_de a_comienzos_de a_principios_del a_comienzos_del
vend: a_finales_de finales_de a_fines_de a_finales_del a_fines_del
t1: el la|t2: los las|o1: de del|i1: en durante|h1: al|r1: para|b1: entre|&1: y o|u1: a al hasta – — -
s1: desde a_partir_de a_partir_del
B1: antes_de antes_del anteriores_a anteriores_al anterior_a anterior_al
a1: después_de después_del tras posteriores_a posteriores_al posterior_a posterior_al
g1: alrededor_de hacia|E1: todos todas cada
"""
_CHINESE = """
W0: 周一 星期一 礼拜一|W1: 周二 星期二 礼拜二|W2: 周三 星期三 礼拜三|W3: 周四 星期四 礼拜四|W4: 周五 星期五 礼拜五
W5: 周六 星期六 礼拜六|W6: 周日 周天 星期日 星期天 礼拜天
Uminute: 分钟|Uhour: 小时 个小时|Uday: 天|Uweek: 周 星期 个星期 个礼拜|Umonth: 个月|Uyear: 年|Uweekend: 周末 个周末
L2 Uweek: 上上周 上上星期 上上个星期
L1 Uweek: 上周 上星期 上个星期 上礼拜 上个礼拜 上一周|T1 Uweek: 本周 这周 这一周 这个星期 这礼拜 这个礼拜
X1 Uweek: 下周 下星期 下个星期 下礼拜 下个礼拜 下一周
L2 Umonth: 上上个月 上上月|L1 Umonth: 上个月 上月|T1 Umonth: 本月 这个月|X1 Umonth: 下个月 下月
L1 Uquarter: 上季度 上个季度|T1 Uquarter: 本季度 这个季度
N6 Umonth: 半年|N30 Uminute: 半小时 半个小时 半个钟头|N15 Uday: 半个月|N15 Uminute: 一刻钟|N90 Uminute: 一个半小时
N45 Uday: 一个半月|Umonth: 个多月|Uweek: 个多星期|Uhour: 个多小时|Uyear: 年多
V1 w1 Uday: 这几天 这些天 近几天 近日|V1 N2 Uday: 这两天
L2 Uweekend: 上上周末 上上个周末|y1: 至今|k: 现在 目前 如今|j1: 起 开始|O-1: 最后|c3: 同期 这个时候 这时候 此时
T1 Uyear vmid: 年中|T1 Umonth vmid: 月中|Uhalf: 半|Pdawn: 凌晨|L2 Uyear: 前年
L1 Uyear: 去年 上年 上一年|T1 Uyear: 今年 这一年
X1 Uyear: 明年 下年 下一年|Hapril_fools: 愚人节
L1 Uweekend: 上周末 上个周末|T1 Uweekend: 本周末 这周末 这个周末|X1 Uweekend: 下周末 下个周末
R-1: 昨天 昨日|R-2: 前天|R-3: 大前天|R3: 大后天|R0: 今天 今日|R1: 明天 明日|R2: 后天|R-1 Pnight: 昨晚|R0 Pnight: 今晚
Pmorning: 早上 上午 清晨|Pafternoon: 下午|Pevening: 晚上 傍晚|Pnight: 半夜 夜里 深夜|R-1 Pnight: 昨夜
C12h: 中午|R0 Pmorning: 今早
R-2 Pnight: 前晚|V1: 最近 过去 近|Q1: 第一季度 一季度|Q2: 第二季度 二季度|Q3: 第三季度 三季度|Q4: 第四季度 四季度
T1 Uyear vbegin: 年初|T1 Uyear vend: 年底 年末|T1 Umonth vbegin: 月初|T1 Umonth vend: 月底 月末
G1: 上半年|G2: 下半年|vbegin: 初|vend: 底 末|vearly: 上旬|vmid: 中旬|vlate: 下旬
S0: 春天 春季|S1: 夏天 夏季|S2: 秋天 秋季|S3: 冬天 冬季|Hchristmas: 圣诞节 圣诞|Hnew_year: 元旦|
Hmay_1: 劳动节|Hoctober_1: 国庆节 国庆|w1: 几|w1 Uday A1: 前几天 前些天
Hgolden_week: 国庆假期 国庆长假 国庆期间 十一假期 十一长假
Hmay_1: 五一|Hmay_holidays: 五一假期 五一长假 五一期间 五一小长假
Hlantern: 元宵节|Hchung_yeung: 重阳节|Hdecember_12: 双十二 双12
x: 今日头条 明日方舟
Hchinese_new_year: 春节 大年初一|Hchinese_new_year's_eve: 除夕 大年三十 年三十|Hqingming: 清明节
Hdragon_boat: 端午节 端午
Hmid-autumn: 中秋节 中秋
Hvalentine: 情人节|Hwomen's_day: 妇女节|Hmother's_day: 母亲节|Hfather's_day: 父亲节
Hchildren's_day: 儿童节
Hteachers'_day: 教师节|Hhalloween: 万圣节|Hnovember_11: 双十一 双11|Hthanksgiving: 感恩节|Hchristmas_eve: 平安夜
A1: 前 之前 以前|y1: 以来|p1: 之后 以后|F1: 后|u1: 到 至 - – —|&1: 和 与 及 或 或者
f1: 从|s1: 自 自从|i1: 在|E1: 每 每个|o1: 的
"""
SOURCES = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "es": _SPANISH, "zh": _CHINESE}

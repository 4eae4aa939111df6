"""Small pages whose fingerprints are part of every recipe's id."""

from __future__ import annotations

from typing import Final

TEXTS: Final = (
    "城西的老邮局昨天重新开门。修缮持续了十四个月，工人保留了木制柜台和铜钟，又在后院添了一间小书店。"
    "第一位顾客是八十一岁的退休投递员，他说自己还记得每条巷子的门牌。",
    "研究生命的起源，小明硕士毕业于中国科学院计算所，后在日本京都大学深造。"
    "他来到了网易杭研大厦，买了一件T恤和B超设备，AT&T的卡拉OK费用是3.5%，比去年多了1,024元。",
    "The ferry left at dawn, and by noon the islanders had unloaded twelve crates of books, two pianos "
    "and a goat. Nobody had ordered the goat; the captain refused to take it back.",
    "Le café de l'île était fermé, naïveté ou résumé: l'été dernier déjà, Zoë mangeait des crêpes à Besançon. "
    "Straße, ÆSIR, Ελλάδα, ΟΔΥΣΣΕΥΣ, İstanbul, cafe\u0301 nai\u0308f.",
    "昨日、駅前のパン屋さんで焼きたてのメロンパンを買いました。ｶﾞﾗｽのコップにコーヒーを入れて、"
    "ゆっくり飲みながら雨の音を聞いていました。ラーメンは一杯八百円です。",
    "어제 저녁에 우리는 강가를 따라 걸으며 새로 생긴 도서관 이야기를 했다. "
    "도서관에는 창문이 많고, 고양이 두 마리가 늘 잠을 잔다.",
    "Вчера поздно вечером поезд остановился посреди леса, и пассажиры вышли посмотреть на звёзды. "
    "Проводница раздавала чай; никто не хотел возвращаться в вагон до рассвета.",
    "เมื่อวานนี้ฝนตกหนักทั้งวัน เด็กๆ จึงอยู่บ้านและอ่านหนังสือนิทานเรื่องช้างน้อยกับพระจันทร์ จนถึงเวลาอาหารเย็น",
    "🚀🚀 发射成功！👨‍👩‍👧‍👦 一家人在海边看火箭升空 🌊 1️⃣ 2️⃣ 3️⃣ 倒计时 👍🏽 视频点击量超过五百万次，网友纷纷点赞 ❤️",
    "ＡＢＣ　１２３　全角文字と半角ｶﾅ、㈱①②③ ﬁne ½ 豈更車 \u3000\u00a0\u2003\u2028 "
    "ＱＱ号码：１０００１，请于二〇二六年五月加入群聊。",
    "2026-05-17 08:30:00 3.14159 1,000,000 0xdeadbeef v2.0.1-rc3 192.168.0.254 +86-10-5555-0100 99.9% "
    "user_name@mail.example C++ C# .NET node.js",
    "\ud800单独的代理\udfff、零宽\u200b空格、控制符\x07和\r\n换行\t制表，𠮷野家与𪚥字，"
    "མཐོང་བ་དགེ་བ། ភាសាខ្មែរ မြန်မာဘာသာ ພາສາລາວ",
    "下雨天留客天留我不留" * 12,
)

HTML: Final = (
    '<!doctype html><html lang="zh"><head><meta charset="gb18030"><title>山谷里的图书馆</title>'
    "<style>p{color:red}</style><script>var a='忽略我';</script></head><body>"
    '<nav><a href="/">首页</a> <a href="/news">新闻</a> <a href="/about">关于我们</a></nav>'
    "<article><h1>山谷里的图书馆</h1>"
    "<p>春天来临之前，村民们把废弃的磨坊改成了一座图书馆。书架用旧船板做成，窗户朝着河。"
    "每个星期六，孩子们都会沿着石阶走上来，听老教师朗读游记。</p>"
    "<p>去年冬天，积雪压断了屋顶的一根横梁，邻近三个村子的木匠赶来帮忙，两天之内就修好了。"
    "如今馆里有四千多册书，还有一台能放映老电影的机器。&amp; caf&eacute; &#20013;</p>"
    "</article><footer>版权所有 &copy; 示例</footer></body></html>"
).encode("gb18030")

"""What sites put around an article, made up here: headlines, advertisements, counters, comments, navigation."""

from __future__ import annotations

from random import Random

_PLACES = ("海州", "临江", "北原", "青石", "云港", "东屏", "南浦", "白塔", "金湾", "沙河")
_WHO = ("市民", "摄影爱好者", "消防员", "大学生", "果农", "快递员", "退休教师", "志愿者", "创业团队", "博物馆")
_DID = (
    "清晨排队为老街拍照",
    "把旧车库改成图书角",
    "发现一株百年古树",
    "组织首届面条节",
    "连夜抢修供水管道",
    "用无人机巡查山林",
    "为候鸟搭起瞭望台",
    "推出夜间公交专线",
    "晒出家庭账本引热议",
    "修好停摆多年的钟楼",
)
_ADS = (
    "限时特惠：全场满{n}减{m}，点击领取优惠券",
    "{place}新楼盘开盘，首付{n}万起，咨询热线400-{n}{m}-8800",
    "学英语只要{m}分钟，今日报名立减{n}元",
    "这款手机销量突破{n}万台，{m}期免息",
    "专家推荐：每天一杯，{n}天见效，无效退款",
    "下载客户端，领{n}元红包，{m}人已参加",
    "二手车直卖，{place}车主三天卖出{n}辆",
    "装修报价计算器：{n}平米仅需{m}万元",
)
_COMMENTS = (
    "说得太好了，支持一下",
    "沙发！第一次坐得这么靠前",
    "小编辛苦了，但是图片打不开",
    "我在{place}，情况确实是这样",
    "楼上的朋友说得对，顶{m}次",
    "{n}年前就有人提过，可惜没人听",
    "有没有懂行的来解释一下，这到底是怎么回事",
    "转给家里人看看，谢谢分享",
    "标题党，看完浪费了我{m}分钟",
    "希望有关部门重视起来，别等出了问题再说",
)
_SECTIONS = (
    "首页",
    "要闻",
    "财经",
    "体育",
    "娱乐",
    "汽车",
    "房产",
    "教育",
    "健康",
    "旅游",
    "视频",
    "图片",
    "社区",
    "论坛",
)
_NAMES = ("清风", "老王", "豆芽", "山里人", "momo", "飞鱼", "一叶", "Leo", "小满", "石头")


def headline(random: Random) -> str:
    """A headline of another article."""
    return f"{random.choice(_PLACES)}{random.choice(_WHO)}{random.choice(_DID)}"


def advertisement(random: Random) -> str:
    """Return a block between two paragraphs. The class names of half of the blocks say what they are."""
    kind = random.choice(('class="ad"', 'class="box"', 'class="adsbygoogle"', 'class="m-card"'))
    return f'<div {kind}><a href="/go/{random.randrange(9999)}">{_fill(random.choice(_ADS), random)}</a></div>'


def date_line(random: Random) -> str:
    """Date, source and number of readers, as they stand below a headline."""
    date = f"2019-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    hour = f"{random.randrange(24):02}:{random.randrange(60):02}"
    source = f"{random.choice(_PLACES)}日报"
    return (
        f'<div class="info"><span>{date} {hour}</span> <span>来源：{source}</span> '
        f"<span>阅读 {random.randrange(99999)}</span></div>"
    )


def counters(random: Random) -> str:
    """Buttons with numbers, as they stand below an article."""
    parts = (f"{word} {random.randrange(9999)}" for word in ("点赞", "收藏", "转发", "评论"))
    return f'<div class="share">{" ".join(f"<span>{part}</span>" for part in parts)}</div>'


def comments(random: Random) -> str:
    """Up to twelve comments of readers; now and then none."""
    rows = []
    for _ in range(random.choice((0, 2, 5, 12))):
        said = _fill(random.choice(_COMMENTS), random)
        rows.append(
            f"<li><b>{random.choice(_NAMES)}{random.randrange(999)}</b><p>{said}</p><i>{random.randrange(60)}分钟前</i></li>"
        )
    return f'<div class="comments"><h3>网友评论</h3><ul>{"".join(rows)}</ul></div>' if rows else ""


def related(random: Random) -> str:
    """Headlines that the site would have its reader open next."""
    links = (f'<li><a href="/a/{random.randrange(99999)}.html">{headline(random)}</a></li>' for _ in range(6))
    return f'<div class="related"><h3>相关阅读</h3><ul>{"".join(links)}</ul></div>'


def navigation(random: Random) -> str:
    """A site's sections, some of them, in some order."""
    names = random.sample(_SECTIONS, random.randint(6, len(_SECTIONS)))
    links = " ".join(f'<a href="/{number}/">{name}</a>' for number, name in enumerate(names))
    return f'<div class="nav">{links}</div>'


def _fill(pattern: str, random: Random) -> str:
    return pattern.format(n=random.randint(10, 999), m=random.randint(2, 60), place=random.choice(_PLACES))

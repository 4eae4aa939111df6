"""Boilerplate pages, made up: error pages, login walls, cookie notices, empty shells, in Chinese and English.

Each template is told over and over with another host, id, time and path, as real sites do. `{…}` are filled in.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

_HOSTS = ("www.baihe-news.example", "shop.lantern.example", "bbs.yunhai.example", "m.ocean-daily.example")
_PATHS = (
    "/article/{n}",
    "/news/{y}/{n}.html",
    "/user/{h}/posts",
    "/p/{h}?from={n}",
    "/item-{n}.shtml",
    "/{h}/index.php",
)
_SITES = ("百合新闻网", "云海论坛", "灯笼商城", "Ocean Daily", "Lantern Shop", "青石在线", "Northfield Herald")
_NAMES = ("home", "about", "contact", "careers", "press", "help", "privacy", "terms", "site map", "mobile")


class ShellPage(NamedTuple):
    """One kind of page without its own content; most come with status 200."""

    name: str
    html: str
    status: int = 200


SHELLS = (
    ShellPage(
        "404 zh",
        "<h1>404</h1><p>很抱歉，您访问的页面不存在或已被删除。</p><p>请求地址：{path}</p><a href='/'>返回{site}首页</a>",
    ),
    ShellPage(
        "404 zh long",
        "<div class='error'><h2>您要找的页面走丢了</h2><p>可能的原因：</p><ul><li>网址输入有误，请检查后重试</li>"
        "<li>该内容已被作者删除或正在审核</li><li>链接已经过期，系统将在{s}秒后自动跳转到首页</li></ul>"
        "<p>如有疑问请联系客服，并提供编号 {h}</p></div>",
    ),
    ShellPage(
        "404 en",
        "<h1>Not Found</h1><p>The requested URL {path} was not found on this server.</p><hr><address>Apache Server at {host} Port 80</address>",
        404,
    ),
    ShellPage(
        "soft 404 en",
        "<h1>Sorry, we can't find that page</h1><p>The page {path} may have been moved, renamed or removed. Try our "
        "search, go back to the {site} home page, or tell us what you were looking for. Reference: {h}</p>",
    ),
    ShellPage(
        "403 en",
        "<h1>Forbidden</h1><p>You don't have permission to access {path} on this server. Request ID {h}</p>",
        403,
    ),
    ShellPage("500 nginx", "<center><h1>500 Internal Server Error</h1></center><hr><center>nginx</center>", 500),
    ShellPage(
        "502 soft",
        "<h1>Bad gateway</h1><p>{host} | {time} | ray {h}</p><p>The web server reported a bad gateway error. Please try again in a few minutes.</p>",
    ),
    ShellPage(
        "503 maintenance en",
        "<h1>We'll be back soon</h1><p>{site} is down for scheduled maintenance until {time}. Thank you for your patience; "
        "orders that were already placed are not affected. If you need help now, write to help@{host}.</p>",
    ),
    ShellPage(
        "maintenance zh",
        "<h1>系统维护中</h1><p>{site}正在进行系统升级，预计{time}恢复访问，给您带来不便敬请谅解。客服热线 400-{n}</p>",
    ),
    ShellPage("busy zh", "<p>当前访问人数过多，请稍后再试。错误代码：{n}，服务器时间：{time}，来源：{ip}</p>"),
    ShellPage(
        "php error",
        "<b>Fatal error</b>: Uncaught Error: Call to undefined function get_header() in /var/www/{host}/index.php:{s} Stack trace: #0 {{main}} thrown in <b>/var/www/{host}/index.php</b> on line <b>{s}</b>",
    ),
    ShellPage("database error", "<h1>Error establishing a database connection</h1><p>{host}</p>"),
    ShellPage(
        "java error",
        "<h1>HTTP Status 500</h1><p>java.lang.NullPointerException at com.shop.web.ItemServlet.doGet(ItemServlet.java:{s}) at javax.servlet.http.HttpServlet.service(HttpServlet.java:{n}) at org.apache.catalina.core.ApplicationFilterChain.doFilter</p>",
    ),
    ShellPage(
        "login zh",
        "<h1>用户登录</h1><form>手机号/邮箱 密码 <a>忘记密码</a> <a>免费注册</a><p>登录即表示同意《用户协议》和《隐私政策》</p></form><p>© {y} {site} 版权所有</p>",
    ),
    ShellPage(
        "login wall zh",
        "<h1>{headline}</h1><p>登录后查看全文，已有{n}人阅读。新用户注册即可免费阅读三篇文章，开通会员畅读全部内容，"
        "支持微信、微博、手机验证码登录。登录遇到问题请联系在线客服。</p>",
    ),
    ShellPage(
        "login en",
        "<h1>Sign in</h1><form>Email Password <label>Keep me signed in</label> Forgot your password? Create an account</form><p>By continuing you agree to the terms of {site} and its privacy notice.</p>",
    ),
    ShellPage(
        "paywall en",
        "<h1>Story {n}</h1><p>You have read your {s} free articles this month. Subscribe to {site} for unlimited access: "
        "one month for a dollar, cancel at any time. Already a subscriber? Sign in to continue reading.</p>",
    ),
    ShellPage(
        "age gate en",
        "<h1>Please confirm your age</h1><p>The content of {host} is for adults only. Enter your date of birth to continue. We do not store this information.</p>",
    ),
    ShellPage(
        "cookies en",
        "<div><h2>We value your privacy</h2><p>{site} and its {s} partners store and access information on your device, such "
        "as cookies, to personalise content and advertisements, measure audiences and improve our services. You may accept "
        "all, reject all or manage your choices at any time in the settings of {host}.</p></div>",
    ),
    ShellPage(
        "cookies short en",
        "<p>This site uses cookies to give you the best experience. By using {host} you accept our cookie policy. Accept Decline</p>",
    ),
    ShellPage(
        "cookies zh",
        "<p>{site}使用Cookie来改善您的浏览体验、分析流量并展示个性化广告。继续浏览即表示您同意我们的Cookie政策，您可以随时在设置中更改选择。</p>",
    ),
    ShellPage(
        "captcha en",
        "<h1>Are you a robot?</h1><p>We have detected unusual activity from your network {ip}. To continue, please complete the check below. Block reference ID: {h}</p>",
    ),
    ShellPage(
        "captcha zh",
        "<h1>安全验证</h1><p>检测到您的网络环境存在异常（{ip}），请完成拼图验证后继续访问。验证编号：{h}</p>",
    ),
    ShellPage(
        "javascript en", "<div id='root'></div><noscript>You need to enable JavaScript to run this app.</noscript>"
    ),
    ShellPage(
        "javascript zh", "<div id='app'></div><noscript>您的浏览器不支持JavaScript，请启用后访问{site}。</noscript>"
    ),
    ShellPage("loading zh", "<div>正在加载，请稍候……</div>"),
    ShellPage(
        "redirect en",
        "<p>Redirecting to {host}{path}. If you are not redirected within {s} seconds, click here to continue.</p>",
    ),
    ShellPage(
        "leaving zh",
        "<h1>您即将离开{site}</h1><p>您将要访问的链接 https://{host}{path} 不属于本站，请注意您的账号和财产安全。是否继续访问？</p>",
    ),
    ShellPage(
        "parked en",
        "<h1>{host}</h1><p>This domain may be for sale. Buy this domain. Related searches: cheap flights, car insurance, home loans, online degrees. Copyright {y} {host} All rights reserved.</p>",
    ),
    ShellPage(
        "forum closed zh",
        "<h1>提示信息</h1><p>抱歉，您所在的用户组（游客）无法进行此操作，请登录后再访问本版块。主题编号 {n}</p><p>Powered by Board X3.4 © {y}</p>",
    ),
    ShellPage(
        "empty list zh",
        "<h1>{headline}</h1><p>暂无相关内容</p><p>共0条 第1页/共0页 上一页 下一页 跳转到</p><p>{site} {time}</p>",
    ),
    ShellPage(
        "empty search en",
        "<h1>Search results for {h}</h1><p>0 results found. Check your spelling, use fewer words, or browse our categories: {menu}.</p>",
    ),
)


def page(shell: ShellPage, headline: str, random: Random) -> str:
    """One page of a template, with a site's head and foot around it in two of three."""
    n, host = random.randrange(10_000, 10_000_000), random.choice(_HOSTS)
    h, y = f"{random.getrandbits(48):x}", random.randint(2014, 2024)
    values = {
        "n": str(n),
        "h": h,
        "y": str(y),
        "s": str(random.randint(2, 90)),
        "host": host if random.random() < 0.3 else f"{h[:5]}.{host}",
        "path": random.choice(_PATHS).format(n=n, h=h, y=y),
        "site": random.choice(_SITES),
        "time": f"{y}-{random.randint(1, 12):02}-{random.randint(1, 28):02} {random.randrange(24):02}:{random.randrange(60):02}:{random.randrange(60):02}",
        "ip": ".".join(str(random.randrange(1, 255)) for _ in range(4)),
        "headline": headline,
        "menu": ", ".join(random.sample(_NAMES, 5)),
    }
    body = shell.html.format(**values)
    if random.random() < 0.67:
        links = "".join(f"<a href='/{name}'>{name}</a> " for name in random.sample(_NAMES, 4))
        body = f"<nav>{links}</nav>{body}<footer>{values['site']} {values['y']}</footer>"
    return f"<html><head><title>{values['site']}</title></head><body>{body}</body></html>"

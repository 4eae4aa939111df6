import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/**
 * Judges the pages of a file in Java 17, without libraries, and prints the answer of each page in order.
 *
 * <pre>java examples/JudgePages.java http://127.0.0.1:9470 examples/pages.jsonl</pre>
 *
 * A program of your own reads each line with its JSON library: a verdict, or line, status and detail. The service:
 * docs/how-to/crawler-http.md. A token, if it wants one, is in the environment: JUDGE_TOKEN.
 */
public class JudgePages {
  private static final int AT_ONCE = 100; // at most 1,000 pages and 16 MB go into one request
  private static final int MAX_CHARACTERS = 2 << 20; // of up to three bytes each
  private static final Duration ANSWER_TIME = Duration.ofSeconds(120); // until an answer begins

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2) {
      System.err.println("usage: java examples/JudgePages.java http://127.0.0.1:9470 PAGES.jsonl");
      System.exit(2);
    }
    HttpClient client =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(Duration.ofSeconds(10))
            .build();
    List<String> pages = Files.readAllLines(Path.of(arguments[1]));
    String service = arguments[0].replaceAll("/+$", "");
    for (int at = 0, end; at < pages.size(); at = end) {
      long size = pages.get(at).length();
      for (end = at + 1; end < pages.size() && end < at + AT_ONCE; end++) {
        size += pages.get(end).length();
        if (size > MAX_CHARACTERS) {
          break;
        }
      }
      judge(client, service, pages.subList(at, end));
    }
  }

  private static void judge(HttpClient client, String service, List<String> pages) throws Exception {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(service + "/judge?timeout=30"))
            .timeout(ANSWER_TIME)
            .header("content-type", "application/x-ndjson")
            .POST(BodyPublishers.ofString(String.join("\n", pages)));
    String token = System.getenv("JUDGE_TOKEN");
    if (token != null) {
      request.header("authorization", "Bearer " + token);
    }
    HttpResponse<InputStream> response;
    try {
      response = client.send(request.build(), BodyHandlers.ofInputStream());
    } catch (ConnectException | HttpConnectTimeoutException error) {
      System.err.println("no service answers at " + service);
      System.exit(1);
      return;
    } catch (HttpTimeoutException error) {
      System.err.println("the service at " + service + " gives no answer in time: send the pages again later");
      System.exit(1);
      return;
    }
    var lines = new BufferedReader(new InputStreamReader(response.body(), StandardCharsets.UTF_8));
    if (response.statusCode() != 200) {
      String why = response.statusCode() + ": " + lines.readLine();
      System.err.println(
          response.statusCode() == 401 ? "the service wants its token: set JUDGE_TOKEN to it" : why);
      System.exit(1);
    }
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(line);
    }
  }
}

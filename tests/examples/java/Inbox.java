import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.regex.Pattern;

/** A fresh private inbox, for a try-with-resources: closing it deletes it. */
class Inbox implements AutoCloseable {
    private static final String API = System.getenv("TMPMAILD_URL") + "/api/v1/addresses";
    final String address, token;

    Inbox() throws Exception {
        String created = ask(HttpRequest.newBuilder().POST(HttpRequest.BodyPublishers.ofString("{\"private\": true}")), "");
        address = member("address", created);
        token = member("token", created);
    }

    String code() throws Exception { return waitFor("code", "value"); }
    String link() throws Exception { return waitFor("link", "href"); }

    private String waitFor(String has, String member) throws Exception {
        String found = ask(request(), "/" + address + "/messages?wait=30&explain=true&has=" + has);
        if (found.startsWith("{\"messages\":[]")) throw new AssertionError("no " + has + ": " + member("reason", found));
        return member(member, found.substring(found.indexOf("\"" + has + "s\":")));
    }

    private HttpRequest.Builder request() { return HttpRequest.newBuilder().header("Authorization", "Bearer " + token); }

    private String ask(HttpRequest.Builder request, String path) throws Exception {
        var answer = HttpClient.newHttpClient().send(request.uri(URI.create(API + path)).build(), BodyHandlers.ofString());
        if (answer.statusCode() >= 300) throw new AssertionError(answer.body());
        return answer.body();
    }

    private static String member(String name, String json) { // the JDK has no JSON parser
        return Pattern.compile("\"" + name + "\":\"((?:[^\"\\\\]|\\\\.)*)").matcher(json).results().findFirst().get().group(1);
    }

    @Override public void close() throws Exception { ask(request().DELETE(), "/" + address); }
}

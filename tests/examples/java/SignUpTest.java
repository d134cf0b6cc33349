import static org.junit.jupiter.api.Assertions.assertEquals;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import org.junit.jupiter.api.Test;

class SignUpTest {
    private static final String SHOP = System.getenv("SHOP_URL");

    @Test
    void theMailOpensTheShop() throws Exception {
        try (var inbox = new Inbox()) {
            post("/sign-up", "email=" + inbox.address);
            assertEquals("You are in.\n", post("/confirm", "email=" + inbox.address + "&code=" + inbox.code()));
            assertEquals("You are in.\n", send(HttpRequest.newBuilder(URI.create(inbox.link()))));
        }
    }

    private static String post(String path, String form) throws Exception {
        var body = HttpRequest.BodyPublishers.ofString(form);
        var request = HttpRequest.newBuilder(URI.create(SHOP + path)).POST(body);
        return send(request.header("Content-Type", "application/x-www-form-urlencoded"));
    }

    private static String send(HttpRequest.Builder request) throws Exception {
        return HttpClient.newHttpClient().send(request.build(), BodyHandlers.ofString()).body();
    }
}

// Rolling.java - asks nodes for ids over the keep-alive connections of java.net.http while they are
// restarted one after the other: see test_rolling_restart.py for what is printed.
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;

public class Rolling {
    private static final AtomicLong asked = new AtomicLong();
    private static volatile boolean stopped;

    private static void run(HttpClient client, String[] urls, int first) {
        int at = first;
        for (int turn = 0; !stopped; turn++) {
            try {
                Thread.sleep((turn % 5) * 3);
                HttpRequest request = HttpRequest.newBuilder(URI.create(urls[at % urls.length]))
                    .timeout(Duration.ofSeconds(15)).build();
                asked.incrementAndGet();
                HttpResponse<String> reply =
                    client.send(request, HttpResponse.BodyHandlers.ofString());
                if (reply.statusCode() != 200) {
                    System.out.println("cut: status " + reply.statusCode());
                }
            } catch (ConnectException refused) {
                at++;
            } catch (Exception error) {
                System.out.println("cut: " + error);
                at++;
            }
        }
    }

    public static void main(String[] urls) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        Thread[] threads = new Thread[2 * urls.length];
        for (int i = 0; i < threads.length; i++) {
            int first = i / 2;
            threads[i] = new Thread(() -> run(client, urls, first));
            threads[i].start();
        }
        System.out.println("started");
        System.in.readAllBytes();
        stopped = true;
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("asked: " + asked.get());
    }
}

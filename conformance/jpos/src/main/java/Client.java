// SPDX-License-Identifier: AGPL-3.0-or-later

import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.jpos.iso.BaseChannel;
import org.jpos.iso.ISOException;
import org.jpos.iso.ISOMsg;

/**
 * Sends requests over one channel, so many in flight, and checks every answer: its type, the echo of
 * fields 11, 37 and 41, and field 39. Ends with code 1 where one was wrong or missing.
 */
public class Client {
    private static final String[] TYPES = {"0200", "0100", "0400", "0800"};
    private static final int TIMEOUT_MS = 20_000;

    private final BaseChannel channel;
    private final int messages;
    private final int inFlight;
    private final Semaphore free;
    private final CountDownLatch full = new CountDownLatch(1);
    private final Map<String, ISOMsg> waiting = new ConcurrentHashMap<>();
    private volatile boolean broken;

    private Client(BaseChannel channel, int messages, int inFlight) {
        this.channel = channel;
        this.messages = messages;
        this.inFlight = inFlight;
        free = new Semaphore(inFlight);
    }

    public static void main(String[] arguments) throws Exception {
        Peer peer = new Peer(arguments);
        int port = peer.number("port");
        int messages = peer.number("messages");
        int inFlight = peer.number("in-flight");
        BaseChannel channel = peer.channel();
        channel.setHost("127.0.0.1", port);
        channel.setTimeout(TIMEOUT_MS);
        channel.connect();
        String wrong = new Client(channel, messages, inFlight).run();
        if (wrong != null) {
            System.out.println(wrong);
            System.exit(1);
        }
        System.out.println(messages + " answers");
        System.exit(0);
    }

    /** What was wrong first, or nothing. */
    private String run() throws InterruptedException {
        Thread sender = new Thread(this::send);
        sender.setDaemon(true);
        sender.start();
        // Only when all may be in flight, they are: nothing is taken before.
        if (!full.await(TIMEOUT_MS, TimeUnit.MILLISECONDS)) {
            return "the server did not take " + inFlight + " requests";
        }
        for (int answered = 0; answered < messages; answered++) {
            try {
                String wrong = wrong(channel.receive());
                if (wrong != null) {
                    return "answer " + answered + ": " + wrong;
                }
            } catch (Exception failed) {
                return "after " + answered + " answers: " + failed;
            }
            free.release();
        }
        return broken ? "a request was not sent" : waiting.isEmpty() ? null : "answers are missing";
    }

    private void send() {
        try {
            for (int number = 0; number < messages; number++) {
                free.acquire();
                ISOMsg request = request(number);
                waiting.put(request.getString(11), request);
                channel.send(request);
                if (number + 1 == inFlight) {
                    full.countDown();
                }
            }
        } catch (Exception failed) {
            System.out.println(failed);
            broken = true;
            full.countDown();
        }
    }

    private String wrong(ISOMsg answer) throws ISOException {
        String trace = answer.getString(11);
        ISOMsg request = trace == null ? null : waiting.remove(trace);
        if (request == null) {
            return "nothing waits for trace number " + trace;
        }
        String type = request.getMTI().substring(0, 2) + "10";
        if (!answer.getMTI().equals(type)) {
            return answer.getMTI() + " for " + request.getMTI();
        }
        for (int field : new int[] {37, 41}) {
            if (!Objects.equals(request.getString(field), answer.getString(field))) {
                return "field " + field + " is " + answer.getString(field);
            }
        }
        return "00".equals(answer.getString(39)) ? null : "field 39 is " + answer.getString(39);
    }

    private static ISOMsg request(int number) throws ISOException {
        ISOMsg request = new ISOMsg(TYPES[number % TYPES.length]);
        request.set(7, "1120111559");
        request.set(11, String.format("%06d", number));
        request.set(37, String.format("6325%08d", number));
        request.set(41, "TERM0001");
        if (request.getMTI().equals("0800")) {
            request.set(70, "301");
            return request;
        }
        request.set(2, "4761739001010119");
        request.set(3, "000000");
        request.set(4, String.format("%012d", 100 + number));
        request.set(12, "111559");
        request.set(13, "1120");
        request.set(14, "2912");
        request.set(18, "5411");
        request.set(25, "00");
        // Of more than one length, so that frames differ.
        request.set(32, "12345678901".substring(number % 6));
        request.set(35, "4761739001010119=29122011234567890");
        request.set(42, "MERCHANT0000001");
        request.set(43, "ACME STORE            MONTEVIDEO    UYUY");
        request.set(49, "840");
        request.set(52, new byte[] {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, (byte) 0x88});
        return request;
    }
}

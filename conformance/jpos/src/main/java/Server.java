// SPDX-License-Identifier: AGPL-3.0-or-later

import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;
import org.jpos.core.SimpleConfiguration;
import org.jpos.iso.BaseChannel;
import org.jpos.iso.ISOException;
import org.jpos.iso.ISOMsg;
import org.jpos.iso.ISOServer;
import org.jpos.iso.ISOSource;
import org.jpos.iso.ServerChannel;
import org.jpos.util.ThreadPool;

/** Approves every request until its input ends, then says how many there were. */
public class Server {
    private static final int SESSIONS = 4;

    public static void main(String[] arguments) throws Exception {
        Peer peer = new Peer(arguments);
        int port = peer.number("port");
        BaseChannel channel = peer.channel();
        ISOServer server = new ISOServer(port, (ServerChannel) channel, new ThreadPool(1, SESSIONS));
        SimpleConfiguration loopback = new SimpleConfiguration();
        loopback.put("bind-address", "127.0.0.1");
        server.setConfiguration(loopback);
        AtomicInteger requests = new AtomicInteger();
        server.addISORequestListener((source, request) -> {
            requests.incrementAndGet();
            return answer(source, request);
        });
        Thread thread = new Thread(server);
        thread.setDaemon(true);
        thread.start();
        System.in.readAllBytes();
        System.out.println(requests + " requests");
        System.exit(0);
    }

    private static boolean answer(ISOSource source, ISOMsg request) {
        try {
            ISOMsg answer = (ISOMsg) request.clone();
            answer.setResponseMTI();
            answer.set(39, "00");
            source.send(answer);
            return true;
        } catch (IOException | ISOException failed) {
            System.out.println(failed);
            return false;
        }
    }
}

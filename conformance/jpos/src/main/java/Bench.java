// SPDX-License-Identifier: AGPL-3.0-or-later

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.StringJoiner;
import org.jpos.iso.ISOException;
import org.jpos.iso.ISOMsg;
import org.jpos.iso.ISOPackager;
import org.jpos.iso.ISOUtil;
import org.jpos.iso.packager.GenericPackager;
import org.jpos.iso.packager.ISO87APackager;

/**
 * Measures jPOS on the messages that bench/peers/run hands over: {@code Bench SECONDS ROUNDS FILE...}
 * prints a JSON line per message.
 */
public class Bench {
    /** Operations between two looks at the clock. */
    private static final int BATCH = 256;

    private static final double WARM_SECONDS = 2;

    private static final OperatingSystemMXBean PROCESS =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    /** Where results go, so that none is left out. */
    private static volatile Object sink;

    private final double seconds;
    private final int rounds;

    private String name;
    private ISOPackager packager;
    private byte[] packed;
    private final Map<Integer, Object> values = new LinkedHashMap<>();
    private final List<Map<Integer, String>> updates = new ArrayList<>();

    private interface Operation {
        Object run(int turn) throws ISOException;
    }

    private Bench(double seconds, int rounds) {
        this.seconds = seconds;
        this.rounds = rounds;
    }

    public static void main(String[] arguments) throws Exception {
        for (int at = 2; at < arguments.length; at++) {
            Bench bench = new Bench(Double.parseDouble(arguments[0]), Integer.parseInt(arguments[1]));
            bench.read(Path.of(arguments[at]));
            String result;
            try {
                bench.prove();
                result = "\"proof\":\"same bytes\",\"rates\":{" + bench.rates() + "}";
            } catch (ISOException refused) {
                result = "\"cannot\":\"" + refused.getMessage().replace('"', '\'') + "\"";
            }
            String version = ISOMsg.class.getProtectionDomain().getCodeSource().getLocation().getPath();
            version = version.replaceAll(".*jpos-([0-9.]+)\\.jar", "$1");
            System.out.printf(
                    "{\"peer\":\"jPOS\",\"version\":\"%s\",\"message\":\"%s\",%s}%n", version, bench.name, result);
        }
    }

    private void read(Path file) throws IOException, ISOException {
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "name" -> name = words[1];
                case "layout" -> packager = packager(words[1]);
                case "packed" -> packed = ISOUtil.hex2byte(words[1]);
                case "text" -> values.put(
                        Integer.valueOf(words[1]), new String(ISOUtil.hex2byte(words[2]), ISOUtil.CHARSET));
                case "bytes" -> values.put(Integer.valueOf(words[1]), ISOUtil.hex2byte(words[2]));
                case "update" -> updates.add(update(words));
                case "row" -> { } // jPOS has tables of its own.
                default -> throw new IOException("cannot read " + line);
            }
        }
    }

    private static ISOPackager packager(String layout) throws ISOException {
        return switch (layout) {
            case "iso87a" -> new ISO87APackager();
            case "iso87binary" -> new GenericPackager("jar:packager/iso87binary.xml");
            default -> throw new ISOException("no packager for " + layout);
        };
    }

    private static Map<Integer, String> update(String[] words) {
        Map<Integer, String> update = new LinkedHashMap<>();
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            String[] setting = word.split("=");
            update.put(Integer.valueOf(setting[0]), setting[1]);
        }
        return update;
    }

    private ISOMsg filled(Map<Integer, String> update) throws ISOException {
        ISOMsg message = new ISOMsg();
        for (Map.Entry<Integer, Object> value : values.entrySet()) {
            if (value.getValue() instanceof byte[] bytes) {
                message.set(value.getKey(), bytes);
            } else {
                message.set(value.getKey(), (String) value.getValue());
            }
        }
        set(message, update);
        // Last: with a packager, text for a binary field would be taken as hexadecimal.
        message.setPackager(packager);
        return message;
    }

    private static void set(ISOMsg message, Map<Integer, String> update) throws ISOException {
        for (Map.Entry<Integer, String> value : update.entrySet()) {
            message.set(value.getKey(), value.getValue());
        }
    }

    private ISOMsg unpacked(byte[] bytes) throws ISOException {
        ISOMsg message = new ISOMsg();
        message.setPackager(packager);
        message.unpack(bytes);
        return message;
    }

    private void prove() throws ISOException {
        if (!Arrays.equals(filled(Map.of()).pack(), packed)) {
            throw new ISOException("other bytes were packed");
        }
        ISOMsg read = unpacked(packed);
        for (Map.Entry<Integer, Object> value : values.entrySet()) {
            byte[] expected = value.getValue() instanceof byte[] bytes
                    ? bytes
                    : ((String) value.getValue()).getBytes(ISOUtil.CHARSET);
            if (!Arrays.equals(read.getBytes(value.getKey()), expected)) {
                throw new ISOException("field " + value.getKey() + " was read otherwise");
            }
        }
    }

    private String rates() throws ISOException {
        int many = updates.size();
        ISOMsg[] messages = new ISOMsg[many];
        byte[][] bytes = new byte[many][];
        for (int at = 0; at < many; at++) {
            messages[at] = filled(updates.get(at));
            bytes[at] = messages[at].pack();
        }
        ISOMsg updated = filled(updates.get(0));
        StringJoiner rates = new StringJoiner(",");
        rates.add(rate("fill_pack", turn -> filled(updates.get(turn % many)).pack()));
        rates.add(rate("pack", turn -> {
            // Makes jPOS forget what it packed before.
            messages[turn % many].setPackager(packager);
            return messages[turn % many].pack();
        }));
        rates.add(rate("unpack", turn -> unpacked(bytes[turn % many])));
        rates.add(rate("pack_unpack", turn -> {
            messages[turn % many].setPackager(packager);
            return unpacked(messages[turn % many].pack());
        }));
        rates.add(rate("update_pack_unpack", turn -> {
            set(updated, updates.get(turn % many));
            return unpacked(updated.pack());
        }));
        return rates.toString();
    }

    /** The median of some rounds, after a long one that warms the compiler up. */
    private String rate(String operation, Operation run) throws ISOException {
        round(run, Math.max(WARM_SECONDS, seconds));
        double[] rates = new double[rounds];
        for (int round = 0; round < rounds; round++) {
            rates[round] = round(run, seconds);
        }
        Arrays.sort(rates);
        return String.format(Locale.ROOT, "\"%s\":%.0f", operation, rates[rounds / 2]);
    }

    private static double round(Operation operation, double seconds) throws ISOException {
        long started = System.nanoTime();
        long cpuBefore = PROCESS.getProcessCpuTime();
        int turn = 0;
        while (System.nanoTime() - started < seconds * 1e9) {
            for (int at = 0; at < BATCH; at++, turn++) {
                sink = operation.run(turn);
            }
        }
        return turn * 1e9 / (PROCESS.getProcessCpuTime() - cpuBefore);
    }
}

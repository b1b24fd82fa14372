// SPDX-License-Identifier: AGPL-3.0-or-later

import java.util.LinkedHashMap;
import java.util.Map;
import org.jpos.core.SimpleConfiguration;
import org.jpos.iso.BaseChannel;
import org.jpos.iso.ISOPackager;
import org.jpos.iso.channel.ASCIIChannel;
import org.jpos.iso.channel.AmexChannel;
import org.jpos.iso.channel.BASE24Channel;
import org.jpos.iso.channel.BASE24TCPChannel;
import org.jpos.iso.channel.BCDChannel;
import org.jpos.iso.channel.CSChannel;
import org.jpos.iso.channel.GICCChannel;
import org.jpos.iso.channel.HEXChannel;
import org.jpos.iso.channel.NACChannel;
import org.jpos.iso.channel.NCCChannel;
import org.jpos.iso.channel.PADChannel;
import org.jpos.iso.channel.PostChannel;
import org.jpos.iso.channel.RBPChannel;
import org.jpos.iso.channel.RawChannel;
import org.jpos.iso.channel.VAPChannel;
import org.jpos.iso.channel.XMLChannel;
import org.jpos.iso.packager.ISO87APackager;
import org.jpos.iso.packager.ISO87BPackager;
import org.jpos.iso.packager.PostPackager;
import org.jpos.iso.packager.XMLPackager;

/** What both sides are started with: a channel of jPOS as {@code name=value} words describe it. */
class Peer {
    private final Map<String, String> words = new LinkedHashMap<>();

    /** {@code channel}, {@code packager}, {@code header}, {@code port}; others are properties. */
    Peer(String[] arguments) {
        for (String argument : arguments) {
            String[] word = argument.split("=", 2);
            words.put(word[0], word[1]);
        }
    }

    int number(String name) {
        return Integer.parseInt(words.remove(name));
    }

    /** The channel with all that is left of the words as its properties. */
    BaseChannel channel() throws Exception {
        BaseChannel channel = named(words.remove("channel"));
        channel.setPackager(packager(words.remove("packager")));
        String header = words.remove("header");
        SimpleConfiguration properties = new SimpleConfiguration();
        words.forEach(properties::put);
        channel.setConfiguration(properties);
        if (header != null) {
            channel.setHeader(header);
        }
        return channel;
    }

    private static BaseChannel named(String name) {
        return switch (name) {
            case "ascii" -> new ASCIIChannel();
            case "nac" -> new NACChannel();
            case "ncc" -> new NCCChannel();
            case "bcd" -> new BCDChannel();
            case "post" -> new PostChannel();
            case "base24" -> new BASE24Channel();
            case "base24tcp" -> new BASE24TCPChannel();
            case "vap" -> new VAPChannel();
            case "cs" -> new CSChannel();
            case "gicc" -> new GICCChannel();
            case "hex" -> new HEXChannel();
            case "raw" -> new RawChannel();
            case "rbp" -> new RBPChannel();
            case "amex" -> new AmexChannel();
            case "xml" -> new XMLChannel();
            case "pad" -> new PADChannel();
            default -> throw new IllegalArgumentException("no channel " + name);
        };
    }

    private static ISOPackager packager(String name) throws Exception {
        return switch (name) {
            case "iso87a" -> new ISO87APackager();
            case "iso87b" -> new ISO87BPackager();
            case "postilion" -> new PostPackager();
            case "xml" -> new XMLPackager();
            default -> throw new IllegalArgumentException("no packager " + name);
        };
    }
}

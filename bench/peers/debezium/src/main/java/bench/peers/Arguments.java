package bench.peers;

import java.util.HashMap;
import java.util.Map;

/** The command line: {@code key=value} words; {@code debezium.key=value} goes to the connector as it is. */
record Arguments(Map<String, String> values) {

    private static final String CONNECTOR_PREFIX = "debezium.";

    static Arguments parse(String[] words) {
        Map<String, String> values = new HashMap<>();
        for (String word : words) {
            int cut = word.indexOf('=');
            if (cut < 1) {
                throw new IllegalArgumentException("expected key=value, got '" + word + "'");
            }
            values.put(word.substring(0, cut), word.substring(cut + 1));
        }
        return new Arguments(Map.copyOf(values));
    }

    String text(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException("'" + key + "=' is missing; given: " + values.keySet());
        }
        return value;
    }

    long number(String key) {
        return Long.parseLong(text(key));
    }

    String namespace() {
        return text("database") + "." + text("collection");
    }

    Map<String, String> connectorOptions() {
        Map<String, String> options = new HashMap<>();
        values.forEach((key, value) -> {
            if (key.startsWith(CONNECTOR_PREFIX)) {
                options.put(key.substring(CONNECTOR_PREFIX.length()), value);
            }
        });
        return options;
    }
}

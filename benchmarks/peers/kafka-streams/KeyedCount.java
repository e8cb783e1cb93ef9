import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/**
 * A keyed count in Kafka Streams: RocksDB store with a changelog, exactly once, one output per input.
 *
 * <p>Written against the processor API because count() in the DSL combines outputs as soon as the record cache is on.
 * Here the cache combines only what goes to RocksDB and to the changelog, so both settings do the same work.
 *
 * <p>Every argument is a property, {@code name=value}; those that begin with {@code bench.} are ours, the rest go to
 * StreamsConfig.
 */
public final class KeyedCount {
    private static final String STORE = "counts";

    private static final class Count implements Processor<String, byte[], String, Long> {
        private ProcessorContext<String, Long> context;
        private KeyValueStore<String, Long> counts;

        @Override
        public void init(final ProcessorContext<String, Long> processorContext) {
            context = processorContext;
            counts = processorContext.getStateStore(STORE);
        }

        @Override
        public void process(final Record<String, byte[]> record) {
            final Long before = counts.get(record.key());
            final Long now = before == null ? 1L : before + 1;
            counts.put(record.key(), now);
            context.forward(record.withValue(now));
        }
    }

    public static void main(final String[] arguments) throws InterruptedException {
        final Properties given = new Properties();
        for (final String argument : arguments) {
            final int equals = argument.indexOf('=');
            given.setProperty(argument.substring(0, equals), argument.substring(equals + 1));
        }
        final boolean cached = Boolean.parseBoolean(given.getProperty("bench.cache"));
        final StoreBuilder<KeyValueStore<String, Long>> store =
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long());
        final Topology topology = new Topology()
            .addSource("in", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), given.getProperty("bench.input"))
            .addProcessor("count", Count::new, "in")
            .addStateStore(cached ? store.withCachingEnabled() : store.withCachingDisabled(), "count")
            .addSink("out", given.getProperty("bench.output"), Serdes.String().serializer(), Serdes.Long().serializer(), "count");

        final Properties settings = new Properties();
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put("auto.offset.reset", "earliest");
        given.stringPropertyNames().stream()
            .filter(name -> !name.startsWith("bench."))
            .forEach(name -> settings.put(name, given.getProperty(name)));

        final KafkaStreams streams = new KafkaStreams(topology, settings);
        final CountDownLatch stopped = new CountDownLatch(1);
        streams.setUncaughtExceptionHandler(failure -> {
            failure.printStackTrace();
            stopped.countDown();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close(Duration.ofSeconds(10));
            stopped.countDown();
        }));
        streams.start();
        stopped.await();
    }
}

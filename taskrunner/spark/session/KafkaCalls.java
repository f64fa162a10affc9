import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.Row;

/**
 * Loops that would be too slow from Python, with a call to the JVM for each record. Spark's own
 * Java compiler (Janino) compiles this class when a Kafka sink or source first needs it.
 */
public class KafkaCalls {
    /** Sends rows of (key, value, headers, partition, timestamp); returns how many there were. */
    public long send(Producer producer, String topic, Iterator rows) {
        long sent = 0;
        while (rows.hasNext()) {
            Row row = (Row) rows.next();
            producer.send(
                new ProducerRecord(
                    topic,
                    (Integer) row.get(3),
                    (Long) row.get(4),
                    row.get(0),
                    row.get(1),
                    headers((scala.collection.Seq) row.get(2))));
            sent++;
        }
        return sent;
    }

    /**
     * The timestamps of the first records that were not read: for each partition in `positions`,
     * of the record at its offset, in milliseconds. A partition without an answer is left out.
     */
    public Map oldest(Consumer consumer, Map positions, long withinMs) {
        consumer.assign(positions.keySet());
        for (Iterator each = positions.entrySet().iterator(); each.hasNext(); ) {
            Map.Entry entry = (Map.Entry) each.next();
            consumer.seek((TopicPartition) entry.getKey(), ((Number) entry.getValue()).longValue());
        }
        Map found = new HashMap();
        long deadline = System.currentTimeMillis() + withinMs;
        while (found.size() < positions.size() && System.currentTimeMillis() < deadline) {
            Iterator records = consumer.poll(Duration.ofMillis(200)).iterator();
            while (records.hasNext()) {
                ConsumerRecord record = (ConsumerRecord) records.next();
                TopicPartition at = new TopicPartition(record.topic(), record.partition());
                if (!found.containsKey(at)) {
                    found.put(at, Long.valueOf(record.timestamp()));
                }
            }
            consumer.pause(new ArrayList(found.keySet()));
        }
        return found;
    }

    private List headers(scala.collection.Seq given) {
        List headers = new ArrayList();
        if (given != null) {
            for (int number = 0; number < given.size(); number++) {
                Row header = (Row) given.apply(number);
                headers.add(new RecordHeader(header.getString(0), (byte[]) header.get(1)));
            }
        }
        return headers;
    }
}

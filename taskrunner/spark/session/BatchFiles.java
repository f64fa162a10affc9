import java.util.Collections;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.internal.io.FileCommitProtocol;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.BasicWriteJobStatsTracker;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.FileFormatWriter;
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator;
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Writes the rows of a batch to files, as Spark's own sink of files does: with the numbers of rows
 * and files that the tasks count anyway, where an observation of the rows would cost time for each
 * row; and, if the query keeps no state, from the plan of the batch itself, where a DataFrame would
 * copy each row.
 */
public class BatchFiles {
    /**
     * Writes into the new directory `path`. Returns the rows and files that the tasks have written;
     * then, only if they were written from the plan of the batch itself, the numbers of Spark's
     * jobs: of the first that belongs to it, and of the first that does not.
     */
    public long[] write(Dataset rows, String format, String path, Map options) throws Exception {
        SparkSession session = (SparkSession) rows.sparkSession();
        SparkContext context = session.sparkContext();
        QueryExecution batch = executionOfBatch(rows, session, context);
        boolean isOfBatch = batch != null && !keepsState(batch.executedPlan());
        QueryExecution execution = isOfBatch ? batch : rows.queryExecution();
        scala.collection.immutable.Map given = PythonUtils.toScalaMap(options);
        Configuration hadoop = session.sessionState().newHadoopConfWithOptions(given);
        scala.collection.immutable.Map metrics = BasicWriteJobStatsTracker.metrics();
        FileCommitProtocol committer =
            FileCommitProtocol.instantiate(
                session.sessionState().conf().fileCommitProtocolClass(),
                UUID.randomUUID().toString(),
                path,
                false);
        int firstJob = context.dagScheduler().numTotalJobs();
        FileFormatWriter.write(
            session,
            execution.executedPlan(),
            (FileFormat) Class.forName(format).getConstructor(new Class[0]).newInstance(new Object[0]),
            committer,
            new FileFormatWriter.OutputSpec(
                path,
                PythonUtils.toScalaMap(Collections.emptyMap()),
                execution.analyzed().output()),
            hadoop,
            PythonUtils.toSeq(Collections.emptyList()),
            scala.Option.empty(),
            PythonUtils.toSeq(
                Collections.singletonList(
                    new BasicWriteJobStatsTracker(new SerializableConfiguration(hadoop), metrics))),
            given,
            FileFormatWriter.write$default$11(),
            FileFormatWriter.write$default$12());
        return new long[] {
            valueOf(metrics, "numOutputRows"),
            valueOf(metrics, "numFiles"),
            isOfBatch ? firstJob : 0,
            isOfBatch ? context.dagScheduler().numTotalJobs() : 0
        };
    }

    /** The execution of the batch, if these are its rows and nothing was done to them; or null. */
    private QueryExecution executionOfBatch(
            Dataset rows, SparkSession session, SparkContext context) {
        String query = context.getLocalProperty(StreamExecution.QUERY_ID_KEY());
        if (query == null || !(rows.logicalPlan() instanceof LogicalRDD)) {
            return null;
        }
        StreamExecution stream =
            (StreamExecution)
                session.sharedState().activeStreamingQueries().get(UUID.fromString(query));
        QueryExecution batch = stream == null ? null : stream.lastExecution();
        boolean isSame = batch != null && ((LogicalRDD) rows.logicalPlan()).rdd() == batch.toRdd();
        return isSame ? batch : null;
    }

    /** Whether an operator keeps state: such a plan is executed once only, to be on the safe side. */
    private boolean keepsState(SparkPlan plan) {
        if (plan instanceof StatefulOperator) {
            return true;
        }
        for (int number = 0; number < plan.children().size(); number++) {
            if (keepsState((SparkPlan) plan.children().apply(number))) {
                return true;
            }
        }
        return false;
    }

    private long valueOf(scala.collection.immutable.Map metrics, String name) {
        return ((Long) ((AccumulatorV2) metrics.apply(name)).value()).longValue();
    }
}

"""Headgate, hand-written PySpark and Flink on the same input, side by side.

    make bench         # minutes; bench-full: an hour and more
    python -m bench.side_by_side --only tumbling --rounds 5 --rows 5000000

Each line of the table is one small streaming job over the same files (or the same Kafka topic),
written three times: as a job graph, in PySpark, and in Flink's SQL. The engines are

    headgate   a server of its own with one warm runner, which serves all lines one after the other
    pyspark    one Spark session with the settings that Headgate gives to runners
    defaults   one Spark session with Spark's own settings
    flink      one JVM with Flink's local cluster, at its defaults

All of them stay up for the whole run; in each round every engine runs every line, one after the
other, and the order of the engines turns from round to round. A run is timed from its submission
(for PySpark: from the call that builds the query) to the commit of the batch with the last result
row; for Flink to the end of the bounded job. The number of result rows has to be the same
everywhere, else the line is a fault and has no figures. Medians, spread and ratios go into
`bench/results/*.json`, and from there into docs/benchmarks.md and plots.
"""

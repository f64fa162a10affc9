# One image for everything that runs: the JobManager with its runners (Spark drivers in
# client mode), and a Spark standalone master and worker, which need the same Python.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*

# The dependencies first: they are large, and change less often than the code.
WORKDIR /opt/headgate
COPY constraints.txt pyproject.toml README.md LICENSE ./
RUN python -c "import tomllib; print('\n'.join(tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies']))" > requirements.txt \
    && pip install --no-cache-dir --constraint constraints.txt --requirement requirements.txt

COPY jobmanager jobmanager
COPY taskrunner taskrunner
COPY migrations migrations
COPY examples examples
COPY web web
RUN pip install --no-cache-dir --no-deps .

# Spark's classes as the JVM has them after loading: the first job starts in half the time.
RUN python -m taskrunner.archive_classes

RUN useradd --create-home --uid 10001 headgate \
    && install -d -m 0700 -o headgate -g headgate /var/lib/headgate
USER headgate
WORKDIR /var/lib/headgate
VOLUME /var/lib/headgate

ENV PYTHONUNBUFFERED=1 \
    HEADGATE_HOST=0.0.0.0 \
    HEADGATE_PORT=8081 \
    HEADGATE_DATA_DIR=/var/lib/headgate
EXPOSE 8081

# tini reaps what ends and passes signals on.
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["headgate", "serve"]

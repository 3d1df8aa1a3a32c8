"""What the pytest plugin makes of its environment."""

import pytest

import pytest_penstock
from penstock import ConfigError


@pytest.mark.parametrize("url", ["", "shop"])
def test_malformed_url_of_the_test_server_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_DATABASE_URL", url)
    with pytest.raises(ConfigError, match="PENSTOCK_TEST_DATABASE_URL"):
        pytest_penstock._server(tmp_path_factory)
